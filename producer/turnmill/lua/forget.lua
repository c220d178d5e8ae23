-- Remove a session from Redis altogether, and have the workers remove it from the archive.
-- KEYS: owned..., backlog, due, index, parked, unarchived, forgotten, abandoned, blob
-- ARGV: session
-- returns: 1 when there was such a session, else 0; then how many of its keys are left: the proof
local holder = 's:' .. session
local held = {}
for _, field in ipairs(redis.call('HKEYS', meta)) do
  held[#held + 1] = string.match(field, '^blob:(%x+)$')
end
for _, hash in ipairs(held) do
  redis.call('HDEL', blob .. hash .. ':held', holder)
  -- When no other session holds the image, only its type is left.
  if redis.call('HLEN', blob .. hash .. ':held') <= 1 then
    redis.call('DEL', blob .. hash, blob .. hash .. ':held')
  end
end
redis.call('ZREM', backlog, session)
redis.call('ZREM', due, session)
redis.call('ZREM', parked, session)
redis.call('ZREM', unarchived, session)
-- A worker must end this batch: an agent does not know the endpoint, and no worker will look at the session again.
local awaited = redis.call('GET', batch)
if awaited then
  redis.call('RPUSH', abandoned, awaited)
  redis.call('PEXPIRE', abandoned, 2 * 24 * 3600 * 1000)
end
local listed = redis.call('ZREM', index, session)
local removed = redis.call('DEL', unpack(owned))
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
-- To the microsecond, as epochs are: a session of the same name may begin within this millisecond.
redis.call('ZADD', forgotten, now, time[1] .. string.format('%06d', time[2]) .. ':' .. session)
local left = redis.call('EXISTS', unpack(owned))
for _, hash in ipairs(held) do
  left = left + redis.call('HEXISTS', blob .. hash .. ':held', holder)
end
return {(listed + removed > 0) and 1 or 0, left}
