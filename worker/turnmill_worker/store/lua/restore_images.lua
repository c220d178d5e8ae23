-- Put back images that the session released, before turns that show them are put back into its log.
-- KEYS: meta, blob
-- ARGV: session, epoch, images...
-- images: of each its sha256, media type and bytes
-- returns: 1, or 0 when the session was forgotten meanwhile
local seen = redis.call('HMGET', meta, 'epoch', 'expires_at')
if seen[1] ~= epoch then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for at = 1, #images, 3 do
  local key = blob .. images[at]
  redis.call('SET', key, images[at + 2], 'NX')
  redis.call('HSET', key .. ':held', 'type', images[at + 1], 's:' .. session, 1)
  redis.call('HSET', meta, 'pictures', 1, 'blob:' .. images[at], 1)
  for _, each in ipairs({key, key .. ':held'}) do
    if now + redis.call('PTTL', each) < tonumber(seen[2]) then
      redis.call('PEXPIREAT', each, seen[2])
    end
  end
end
return 1
