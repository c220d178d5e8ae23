-- Count a compaction that failed: the session is due again after a while, or parked after too many in a row.
-- KEYS: meta, due, parked
-- ARGV: session, error, park_after:number, first_ms:number, longest_ms:number
-- full: goes on
-- returns: failures in a row, 1 when it is parked
if redis.call('EXISTS', meta) == 0 then
  redis.call('ZREM', due, session)
  return {0, 0}
end
local failures = redis.call('HINCRBY', meta, 'failures', 1)
redis.call('HSET', meta, 'error', error)
redis.call('HDEL', meta, 'deferred')
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if failures >= park_after or redis.call('HEXISTS', meta, 'parked_at') == 1 then
  redis.call('ZREM', due, session)
  redis.call('ZADD', parked, 'NX', now, session)
  redis.call('HSETNX', meta, 'parked_at', now)
  return {failures, 1}
end
redis.call('ZADD', due, now + math.min(first_ms * 2 ^ (failures - 1), longest_ms), session)
return {failures, 0}
