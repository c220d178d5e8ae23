-- Give up a lease: the session leaves the due list, or is due again after a while, or with more tokens.
-- KEYS: meta, lease, due
-- ARGV: session, owner, counted_seq, settings, again_ms:number, put_off:number, spent, deferred_below:number
-- spent: on models since the last commit, or nothing new; deferred_below: tokens up to which it waits for its model, or -1
-- returns: 1 when it is due at once: turns were counted or settings changed since, or it has no room left to wait; else 0
if redis.call('GET', lease) ~= owner then
  return 0
end
redis.call('DEL', lease)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('EXISTS', meta) == 1
if spent ~= '' and known then
  redis.call('HSET', meta, 'spent', spent)
end
if deferred_below >= 0 and known then
  redis.call('HINCRBY', meta, 'model_failures', 1)
  local size = redis.call('HMGET', meta, 'system_tokens', 'context_tokens', 'tail_tokens')
  if (tonumber(size[1]) or 0) + (tonumber(size[2]) or 0) + (tonumber(size[3]) or 0) > deferred_below then
    redis.call('ZADD', due, now, session)
    return 1
  end
  redis.call('HSET', meta, 'deferred', 1)
end
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
