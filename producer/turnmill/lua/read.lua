-- One atomic view of a session: its context, and every later turn.
-- KEYS: meta, context, log, counts
-- ARGV: default_hard:number
-- returns: meta fields, context, log entries, and each turn's exact tokens when the context is over its hard limit; or nothing for an unknown session
local fields = redis.call('HMGET', meta, 'epoch', 'version', 'watermark', 'last_seq', 'counted_seq',
  'system', 'system_tokens', 'context_tokens', 'tail_tokens', 'pending_bound', 'hard', 'policy')
if not fields[1] then
  return nil
end
local total = (tonumber(fields[7]) or 0) + (tonumber(fields[8]) or 0) + (tonumber(fields[9]) or 0)
  + (tonumber(fields[10]) or 0)
local over = total > (tonumber(fields[11]) or default_hard)
return {fields, redis.call('GET', context), redis.call('XRANGE', log, '-', '+'),
  over and redis.call('HGETALL', counts) or {}}
