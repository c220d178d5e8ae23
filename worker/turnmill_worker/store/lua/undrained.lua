-- The oldest turns and commits that are not in the archive yet.
-- KEYS: meta, covered, commits, unarchived, blob
-- ARGV: session, most:number, size:number
-- returns: epoch, covered entries, commit entries; or nothing (and the session leaves the list) when there are none
local epoch = redis.call('HGET', meta, 'epoch')

-- Up to so many entries and about so many bytes, images included; one at least.
local function oldest(stream)
  local found, bytes = {}, 0
  for _, entry in ipairs(redis.call('XRANGE', stream, '-', '+', 'COUNT', most)) do
    local fields = entry[2]
    for at = 1, #fields, 2 do
      bytes = bytes + #fields[at + 1]
      if fields[at] == 'blobs' then
        for hash in string.gmatch(fields[at + 1], '%x+') do
          bytes = bytes + redis.call('STRLEN', blob .. hash)
        end
      end
    end
    if #found > 0 and bytes > size then
      break
    end
    found[#found + 1] = entry
  end
  return found
end

local turns = epoch and oldest(covered) or {}
local contexts = epoch and oldest(commits) or {}
if #turns + #contexts == 0 then
  redis.call('ZREM', unarchived, session)
  return nil
end
return {epoch, turns, contexts}
