-- Replace all counts made under another basis; turns not yet counted stay so.
-- KEYS: meta, counts
-- ARGV: epoch, revision, version, counted_seq, basis, system_tokens:number, context_tokens:number, pairs...
-- full: goes on
-- returns: 1, or 0 when the session changed meanwhile
local seen = redis.call('HMGET', meta, 'epoch', 'settings', 'version', 'counted_seq', 'expires_at')
if seen[1] ~= epoch or (seen[2] or '0') ~= revision or (seen[3] or '0') ~= version
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
redis.call('PEXPIREAT', counts, seen[5])
return 1
