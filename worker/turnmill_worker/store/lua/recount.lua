-- Replace all counts made under another basis; turns not yet counted stay so.
-- KEYS: meta, log, counts
-- ARGV: epoch, revision, version, expected_commit, newest, newest_chain, counted_seq, basis, system_tokens:number, tools_tokens:number, context_tokens:number, pairs...
-- expected_commit, newest, newest_chain: as in commit.lua
-- full: goes on
-- returns: 1, or 0 when the session changed meanwhile
local seen = redis.call('HMGET', meta, 'epoch', 'settings', 'version', 'counted_seq', 'expires_at', 'settings_id', 'commit_id')
local found = newest ~= '' and redis.call('XRANGE', log, newest, newest)[1]
local is_same = newest == '' or (found and (found[2][14] or found[2][6] .. ' ' .. found[2][10]) == newest_chain)
if not is_same or seen[1] ~= epoch or (seen[2] or '0') .. (seen[6] or '') ~= revision or (seen[3] or '0') ~= version
  or (seen[7] or '') ~= expected_commit
  or (seen[4] or '0') ~= counted_seq then
  return 0
end
redis.call('DEL', counts)
local tail = 0
for at = 1, #pairs, 2 do
  redis.call('HSET', counts, pairs[at], pairs[at + 1])
  tail = tail + tonumber(pairs[at + 1])
end
redis.call('HSET', meta, 'basis', basis, 'system_tokens', system_tokens, 'context_tokens', context_tokens,
  'tail_tokens', tail)
if tools_tokens > 0 then
  redis.call('HSET', meta, 'tools_tokens', tools_tokens)
end
-- What was learned is of the old counts.
redis.call('HDEL', meta, 'ratios', 'told')
redis.call('PEXPIREAT', counts, seen[5])
return 1
