-- Restore an earlier state: its context, its turns; later turns leave the log, marked for the archive.
-- KEYS: context, meta, log, counts, covered, commits, compactions, checkpoints, named, ids, backlog, due, unarchived
-- ARGV: session, epoch, settings, expected_version, seq:number, watermark:number, body, context_tokens:number, tail_tokens:number, open_calls, basis, images:number, images_before:number, interactions:number, quality, record, channel, used, is_due:number, entries...
-- returns: the new version or 0 when the session changed meanwhile, then how many turns left
local seen = redis.call('HMGET', meta, 'epoch', 'settings', 'version', 'watermark', 'last_seq', 'expires_at', 'basis')
if seen[1] ~= epoch or (seen[2] or '0') ~= settings or (seen[3] or '0') ~= expected_version
  or (seen[7] or basis) ~= basis then
  return {0, 0}
end
local lost = 0
local after = string.format('%.0f', seq + 1)
for _, entry in ipairs(redis.call('XRANGE', log, after, '+')) do
  local own = string.match(entry[1], '^%d+')
  local tokens = redis.call('HGET', counts, own) or ''
  redis.call('XADD', covered, '*', 'seq', own, 'tokens', tokens, 'state', 'rolled-back', unpack(entry[2]))
  lost = lost + 1
end
-- Turns that left the log before are in the archive, or on their way there before this mark.
redis.call('XADD', covered, '*', 'after', seq, 'through', seen[5] or '0', 'state', 'rolled-back')

-- Eight values a turn: seq, tokens, messages, bound, turn_id, fields, at, blobs.
redis.call('DEL', log, counts)
for at = 1, #entries, 8 do
  redis.call('XADD', log, entries[at] .. '-0', 'messages', entries[at + 2], 'bound', entries[at + 3],
    'turn_id', entries[at + 4], 'fields', entries[at + 5], 'at', entries[at + 6],
    'blobs', entries[at + 7])
  redis.call('HSET', counts, entries[at], entries[at + 1])
end
redis.call('ZREMRANGEBYSCORE', ids, '(' .. string.format('%.0f', seq), '+inf')

local version = redis.call('HINCRBY', meta, 'version', 1)
redis.call('SET', context, body)
redis.call('HSET', meta, 'watermark', watermark, 'context_tokens', context_tokens, 'tail_tokens', tail_tokens,
  'counted_seq', seen[5] or '0', 'open_calls', open_calls, 'basis', basis, 'images', images,
  'images_before', images_before, 'interactions', interactions)
if quality ~= '' then
  redis.call('HSET', meta, 'quality', quality)
else
  redis.call('HDEL', meta, 'quality')
end
for _, stream in ipairs({checkpoints, named}) do
  for _, entry in ipairs(redis.call('XRANGE', stream, '-', '+')) do
    if tonumber(entry[2][4]) > seq or entry[1] == used then
      redis.call('XDEL', stream, entry[1])
    end
  end
end
redis.call('XADD', compactions, '*', 'record', record)
redis.call('XADD', commits, '*', 'version', version, 'record', record, 'context', body, 'detail', '')
for _, key in ipairs({context, log, counts, covered, commits, compactions}) do
  redis.call('PEXPIREAT', key, seen[6])
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', unarchived, 'NX', now, session)
redis.call('ZREM', backlog, session)
redis.call('ZREM', due, session)
if is_due == 1 then
  redis.call('ZADD', due, now, session)
end
redis.call('PUBLISH', channel, record)
return {version, lost}
