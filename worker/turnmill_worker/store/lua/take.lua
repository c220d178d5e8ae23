-- The session to write the next summary for: namespaces take turns; in each, a session with the least room left, or that has waited long, comes first.
-- KEYS: order, served, waiting, since
-- ARGV: ttl_ms:number
-- returns: namespace, session; or nothing when none waits
local first = redis.call('ZRANGE', order, 0, 0, 'WITHSCORES')
while first[1] do
  local own, began = waiting .. first[1], since .. first[1]
  local found = redis.call('ZPOPMIN', own)
  if redis.call('EXISTS', own) == 1 then
    redis.call('HDEL', began, found[1])
    redis.call('ZINCRBY', order, 1, first[1])
  else
    redis.call('DEL', began)
    redis.call('ZREM', order, first[1])
    if found[1] then
      redis.call('ZADD', served, tonumber(first[2]) + 1, first[1])
      redis.call('PEXPIRE', served, ttl_ms)
    end
  end
  if found[1] then
    -- Virtual time only matters between namespaces that wait together.
    if redis.call('EXISTS', order) == 0 then
      redis.call('DEL', served)
    end
    return {first[1], found[1]}
  end
  first = redis.call('ZRANGE', order, 0, 0, 'WITHSCORES')
end
return nil
