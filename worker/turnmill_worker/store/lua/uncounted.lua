-- The oldest turns nobody has counted yet, with what is needed to count and to decide.
-- KEYS: meta, log, backlog
-- ARGV: session, most:number
-- returns: meta fields, log entries; or nothing (and the session leaves the backlog) when there is no such session
local fields = redis.call('HMGET', meta, 'epoch', 'settings', 'policy', 'system', 'system_tokens',
  'basis', 'counted_seq', 'last_seq', 'context_tokens', 'tail_tokens', 'open_calls',
  'images', 'images_before', 'interactions', 'history_tokens', 'compactions', 'put_off', 'summarized',
  'tools_tokens', 'tools', 'version', 'ratios', 'told')
if not fields[1] then
  redis.call('ZREM', backlog, session)
  return nil
end
fields[2] = (fields[2] or '0') .. (redis.call('HGET', meta, 'settings_id') or '')
-- Turns that were covered before anybody counted them here are not counted any more.
fields[7] = string.format('%.0f', math.max(tonumber(fields[7]) or 0, tonumber(redis.call('HGET', meta, 'watermark')) or 0))
local from = tonumber(fields[7]) + 1
return {fields, redis.call('XRANGE', log, from, '+', 'COUNT', most)}
