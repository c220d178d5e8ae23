-- The oldest turns and commits that are not in the archive yet.
-- KEYS: meta, covered, commits, unarchived
-- ARGV: session, most:number
-- returns: epoch, covered entries, commit entries; or nothing (and the session leaves the list) when there are none
local epoch = redis.call('HGET', meta, 'epoch')
local turns = epoch and redis.call('XRANGE', covered, '-', '+', 'COUNT', most) or {}
local contexts = epoch and redis.call('XRANGE', commits, '-', '+', 'COUNT', most) or {}
if #turns + #contexts == 0 then
  redis.call('ZREM', unarchived, session)
  return nil
end
return {epoch, turns, contexts}
