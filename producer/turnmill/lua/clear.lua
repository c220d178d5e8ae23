-- Set the conversation aside: its turns go to the archive, marked; the system prompt stays.
-- KEYS: meta, log, counts, context, facts, covered, compactions, commits, checkpoints, named, batch, due, parked, unarchived
-- ARGV: session, commit_id
-- full: goes on
-- returns: how many turns were in the log; or nothing for an unknown session
local seen = redis.call('HMGET', meta, 'epoch', 'last_seq', 'expires_at', 'watermark', 'system_tokens',
  'context_tokens', 'tail_tokens', 'chain', 'tools_tokens')
if not seen[1] then
  return nil
end
local last = seen[2] or '0'
local entries = redis.call('XRANGE', log, '-', '+')
for _, entry in ipairs(entries) do
  local seq = string.match(entry[1], '^%d+')
  local tokens = redis.call('HGET', counts, seq) or ''
  redis.call('XADD', covered, '*', 'seq', seq, 'tokens', tokens, 'state', 'cleared', 'by', commit_id, unpack(entry[2]))
end
-- Turns covered earlier are in the archive, or on their way there before this mark.
redis.call('XADD', covered, '*', 'after', 0, 'through', last, 'state', 'cleared', 'by', commit_id)
-- Trimmed, not deleted: a new log would have no lifetime until the next push that renews it.
redis.call('XTRIM', log, 'MAXLEN', 0)
redis.call('DEL', counts, facts, checkpoints, named)
local version = redis.call('HINCRBY', meta, 'version', 1)
local body = '{"version":' .. version .. ',"watermark":' .. last .. ',"strategy":"clear"}'
redis.call('SET', context, body)
local system = (tonumber(seen[5]) or 0) + (tonumber(seen[9]) or 0)
local record = cjson.encode({session = session, version = version, strategy = 'clear',
  from_watermark = tonumber(seen[4]) or 0, watermark = tonumber(last), turns = #entries, elided = 0,
  tokens_before = system + (tonumber(seen[6]) or 0) + (tonumber(seen[7]) or 0), tokens_after = system})
redis.call('XADD', compactions, '*', 'record', record)
redis.call('XADD', commits, '*', 'version', version, 'record', record, 'context', body, 'detail', '', 'commit_id', commit_id)
redis.call('HSET', meta, 'watermark', last, 'counted_seq', last, 'context_tokens', 0, 'tail_tokens', 0,
  'pending', 0, 'open_calls', '[]', 'images', 0, 'images_before', 0, 'interactions', 0, 'messages', 0,
  'history_tokens', 0, 'commit_id', commit_id, 'chain', redis.sha1hex((seen[8] or seen[1]) .. ' ' .. commit_id))
redis.call('HDEL', meta, 'shown', 'look_bound', 'summarized', 'quality', 'put_off', 'model_failures', 'deferred', 'idle', 'failures', 'error', 'parked_at',
  'waits', 'waits_at', 'waits_why')
for _, key in ipairs({context, covered, commits, compactions}) do
  redis.call('PEXPIREAT', key, seen[3])
end
redis.call('ZREM', due, session)
redis.call('ZREM', parked, session)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- Nobody wants an awaited summary any more: a worker will see that, and end its batch.
if redis.call('EXISTS', batch) == 1 then
  redis.call('ZADD', due, now, session)
end
redis.call('ZADD', unarchived, 'NX', now, session)
return #entries
