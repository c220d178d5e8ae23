-- Trim what the archive has by now.
-- KEYS: meta, covered, commits, unarchived
-- ARGV: session, epoch, turns_through, commits_through
-- returns: 1 when there is more, 0 when there is not, -1 when the session was forgotten meanwhile
if redis.call('HGET', meta, 'epoch') ~= epoch then
  return -1
end
-- Entry by entry: XTRIM takes no exclusive end, and there are few hundred at most.
for _, pair in ipairs({{covered, turns_through}, {commits, commits_through}}) do
  if pair[2] ~= '' then
    for _, entry in ipairs(redis.call('XRANGE', pair[1], '-', pair[2])) do
      redis.call('XDEL', pair[1], entry[1])
    end
  end
end
if redis.call('XLEN', covered) + redis.call('XLEN', commits) > 0 then
  return 1
end
redis.call('ZREM', unarchived, session)
return 0
