-- The batch a session's next summary is awaited from.
-- KEYS: batch
-- ARGV: none
-- returns: its note, and the ms it will be remembered yet; or nothing when there is none
local note = redis.call('GET', batch)
if not note then
  return nil
end
return {note, redis.call('PTTL', batch)}
