-- Trim what the archive has by now.
-- KEYS: meta, covered, commits, unarchived
-- ARGV: session, epoch, entries:number, turns_through, commits_through, stored...
-- entries: how many the archive has by now
-- stored: the commits whose entries the archive has by now, as the entries name them: others are of a state that Redis returned to
-- returns: 1 when there is more, 0 when there is not, -1 when the session is gone: forgotten, expired or lost,
-- -2 when some of the entries were gone: another worker trimmed them, or Redis lost them
if redis.call('HGET', meta, 'epoch') ~= epoch then
  return -1
end
local known = {}
for _, commit in ipairs(stored) do
  known[commit] = true
end
local function is_known(fields)
  for at = 1, #fields, 2 do
    if fields[at] == 'by' or fields[at] == 'commit_id' then
      return known[fields[at + 1]]
    end
  end
  return true
end
-- Entry by entry: XTRIM takes no exclusive end, and there are few hundred at most.
for _, pair in ipairs({{covered, turns_through}, {commits, commits_through}}) do
  if pair[2] ~= '' then
    for _, entry in ipairs(redis.call('XRANGE', pair[1], '-', pair[2])) do
      if is_known(entry[2]) then
        entries = entries - redis.call('XDEL', pair[1], entry[1])
      end
    end
  end
end
local left = redis.call('XLEN', covered) + redis.call('XLEN', commits)
if left == 0 then
  redis.call('ZREM', unarchived, session)
end
return entries > 0 and -2 or math.min(left, 1)
