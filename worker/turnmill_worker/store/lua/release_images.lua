-- Release the images that nothing of the session shows any more; an image that no other session holds is deleted.
-- KEYS: meta, log, covered, context, commits, checkpoints, named, blob
-- ARGV: session
-- returns: how many images the session let go
local idle = {}
for _, field in ipairs(redis.call('HKEYS', meta)) do
  local hash = string.match(field, '^blob:(%x+)$')
  if hash then
    idle[hash] = true
  end
end
if not next(idle) then
  return 0
end

local function keep(text, pattern)
  for hash in string.gmatch(text, pattern) do
    idle[hash] = nil
  end
end
-- Turns name their images beside their messages, so that these need not be searched; contexts do not.
local patterns = {blobs = '%x+', context = '"url":"blob:(%x+);'}
for _, stream in ipairs({log, covered, commits, checkpoints, named}) do
  for _, entry in ipairs(redis.call('XRANGE', stream, '-', '+')) do
    local fields = entry[2]
    for at = 1, #fields, 2 do
      if patterns[fields[at]] then
        keep(fields[at + 1], patterns[fields[at]])
      end
    end
  end
end
keep(redis.call('GET', context) or '', patterns.context)
-- With a cipher, only this tells what the context shows.
keep(redis.call('HGET', meta, 'shown') or '', patterns.blobs)

local gone = 0
for hash in pairs(idle) do
  redis.call('HDEL', meta, 'blob:' .. hash)
  redis.call('HDEL', blob .. hash .. ':held', 's:' .. session)
  -- When no other session holds the image, only its type is left.
  if redis.call('HLEN', blob .. hash .. ':held') <= 1 then
    redis.call('DEL', blob .. hash, blob .. hash .. ':held')
  end
  gone = gone + 1
end
return gone
