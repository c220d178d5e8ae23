-- Let the workers compact a parked session again, from now on.
-- KEYS: meta, due, parked
-- ARGV: session
-- full: goes on
-- returns: 1 when it was parked, else 0; or nothing for an unknown session
if redis.call('EXISTS', meta) == 0 then
  redis.call('ZREM', parked, session)
  return nil
end
redis.call('ZREM', parked, session)
if redis.call('HDEL', meta, 'parked_at') == 0 then
  return 0
end
redis.call('HDEL', meta, 'failures', 'error')
local time = redis.call('TIME')
redis.call('ZADD', due, time[1] * 1000 + math.floor(time[2] / 1000), session)
return 1
