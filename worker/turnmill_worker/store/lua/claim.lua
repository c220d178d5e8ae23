-- Take the right to compact a session, for a while; its due time moves to the end of that while.
-- KEYS: meta, lease, due, parked, batch, abandoned
-- ARGV: session, owner, lease_ms:number, ahead_ms:number, forced:number
-- full: goes on
-- returns: 1 when taken, 0 when somebody has it, -1 when there is no such session, -2 when it waits for its model or to be quiet for long enough, -3 when it is parked; both only if it is not forced; then 1 when it awaits a batch, and 1 when forgotten sessions of its shard did
local awaits, abandons = redis.call('EXISTS', batch), redis.call('EXISTS', abandoned)
if redis.call('EXISTS', meta) == 0 then
  redis.call('ZREM', due, session)
  redis.call('ZREM', parked, session)
  return {-1, awaits, abandons}
end
if forced == 0 and redis.call('HEXISTS', meta, 'parked_at') == 1 then
  redis.call('ZREM', due, session)
  return {-3, awaits, abandons}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- A hint that comes late or twice must not ask a failing model ahead of time.
local waits = redis.call('HMGET', meta, 'deferred', 'idle')
if forced == 0 and (waits[1] or waits[2])
  and (tonumber(redis.call('ZSCORE', due, session)) or 0) > now then
  return {-2, awaits, abandons}
end
-- No worker gives so long a lease: Redis' clock was set back since, and the worker may be long gone.
if redis.call('PTTL', lease) > lease_ms + ahead_ms then
  redis.call('DEL', lease)
end
if not redis.call('SET', lease, owner, 'NX', 'PX', lease_ms) then
  return {0, awaits, abandons}
end
redis.call('HDEL', meta, 'deferred', 'idle')
-- If this worker dies, the sweep finds the session due as soon as the lease has run out.
redis.call('ZADD', due, now + lease_ms, session)
return {1, awaits, abandons}
