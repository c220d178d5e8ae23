-- Give up a lease: the session leaves the due list, or is due again after a while, or with more tokens.
-- KEYS: meta, lease, due
-- ARGV: session, owner, counted_seq, settings, again_ms:number, put_off:number
-- returns: 1 when turns were counted or settings changed since, and it is due at once, else 0
if redis.call('GET', lease) ~= owner then
  return 0
end
redis.call('DEL', lease)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if again_ms >= 0 then
  redis.call('ZADD', due, now + again_ms, session)
  return 0
end
local seen = redis.call('HMGET', meta, 'epoch', 'counted_seq', 'settings')
if seen[1] and ((seen[2] or '0') ~= counted_seq or (seen[3] or '0') ~= settings) then
  redis.call('ZADD', due, now, session)
  return 1
end
redis.call('ZREM', due, session)
if put_off > 0 and seen[1] then
  redis.call('HSET', meta, 'put_off', put_off)
end
return 0
