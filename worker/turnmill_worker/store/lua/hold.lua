-- Put pictures back that the session let go, before turns that show them are put back into its log.
-- KEYS: meta, blob
-- ARGV: session, epoch, pictures...
-- pictures: of each its sha256, media type and bytes
-- returns: 1, or 0 when the session was forgotten meanwhile
local seen = redis.call('HMGET', meta, 'epoch', 'expires_at')
if seen[1] ~= epoch then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for at = 1, #pictures, 3 do
  local key = blob .. pictures[at]
  if redis.call('EXISTS', key) == 0 then
    redis.call('HSET', key, 'type', pictures[at + 1], 'data', pictures[at + 2])
  end
  redis.call('HSET', key, 's:' .. session, 1)
  redis.call('HSET', meta, 'pictures', 1, 'blob:' .. pictures[at], 1)
  if now + redis.call('PTTL', key) < tonumber(seen[2]) then
    redis.call('PEXPIREAT', key, seen[2])
  end
end
return 1
