-- Have a session wait for its summary, or say anew how much room it has left.
-- KEYS: order, served, waiting
-- ARGV: namespace, session, room:number, ttl_ms:number
-- returns: 1 when it did not wait before, else 0
local own = waiting .. namespace
local added = redis.call('ZADD', own, room, session)
if not redis.call('ZSCORE', order, namespace) then
  -- Who comes, or comes back, starts where the others are; but not before what it had already.
  local first = redis.call('ZRANGE', order, 0, 0, 'WITHSCORES')
  local now = tonumber(first[2]) or 0
  redis.call('ZREMRANGEBYSCORE', served, '-inf', now)
  redis.call('ZADD', order, math.max(now, tonumber(redis.call('ZSCORE', served, namespace)) or 0), namespace)
end
for _, key in ipairs({own, order, served}) do
  redis.call('PEXPIRE', key, ttl_ms)
end
return added
