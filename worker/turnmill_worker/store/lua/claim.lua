-- Take the right to compact a session, for a while; its due time moves to the end of that while.
-- KEYS: meta, lease, due
-- ARGV: session, owner, lease_ms:number
-- returns: 1 when taken, 0 when somebody has it, -1 when there is no such session
if redis.call('EXISTS', meta) == 0 then
  redis.call('ZREM', due, session)
  return -1
end
if not redis.call('SET', lease, owner, 'NX', 'PX', lease_ms) then
  return 0
end
-- Should this worker die, the sweep finds the session due as soon as the lease has run out.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', due, now + lease_ms, session)
return 1
