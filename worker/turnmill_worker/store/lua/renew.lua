-- Keep a lease, if it is still ours.
-- KEYS: lease, due
-- ARGV: session, owner, lease_ms:number
-- returns: 1 when kept, 0 when it is somebody else's by now
if redis.call('GET', lease) ~= owner then
  return 0
end
redis.call('PEXPIRE', lease, lease_ms)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', due, 'XX', now + lease_ms, session)
return 1
