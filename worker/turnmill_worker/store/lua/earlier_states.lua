-- One atomic view of everything a rollback is planned from.
-- KEYS: meta, log, counts, covered, commits, checkpoints, named
-- ARGV: none
-- returns: epoch and other fields of meta; then log, covered, commits, automatic and named checkpoints, counts; or nothing for an unknown session
local seen = redis.call('HMGET', meta, 'epoch', 'settings', 'policy', 'version', 'watermark', 'last_seq',
  'system_tokens', 'basis', 'context_tokens', 'tail_tokens', 'system', 'commit_id',
  'tools', 'tools_tokens')
if not seen[1] then
  return nil
end
seen[2] = (seen[2] or '0') .. (redis.call('HGET', meta, 'settings_id') or '')
local all = {seen}
for _, stream in ipairs({log, covered, commits, checkpoints, named}) do
  all[#all + 1] = redis.call('XRANGE', stream, '-', '+')
end
all[#all + 1] = redis.call('HGETALL', counts)
return all
