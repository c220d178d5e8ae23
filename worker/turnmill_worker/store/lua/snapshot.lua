-- One atomic view of everything a compaction is planned from.
-- KEYS: meta, context, facts, log, counts
-- ARGV: none
-- returns: meta fields, context, facts, log entries, counts, the id of the last commit, tokens of the tools, learned ratios, the time; or nothing for an unknown session
local fields = redis.call('HMGET', meta, 'epoch', 'settings', 'policy', 'system', 'system_tokens',
  'basis', 'counted_seq', 'last_seq', 'context_tokens', 'tail_tokens', 'open_calls',
  'images', 'images_before', 'interactions', 'history_tokens', 'compactions', 'put_off',
  'model_failures', 'stale', 'spent')
if not fields[1] then
  return nil
end
local ids = redis.call('HMGET', meta, 'settings_id', 'commit_id', 'tools_tokens', 'ratios')
fields[2] = (fields[2] or '0') .. (ids[1] or '')
return {fields, redis.call('GET', context), redis.call('GET', facts), redis.call('XRANGE', log, '-', '+'),
  redis.call('HGETALL', counts), ids[2], ids[3], ids[4], redis.call('TIME')}
