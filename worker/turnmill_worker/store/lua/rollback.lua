-- Restore an earlier state: its context, its turns; later turns leave the log, marked for the archive.
-- KEYS: context, meta, log, counts, covered, commits, compactions, checkpoints, named, ids, batch, backlog, due, parked, unarchived
-- ARGV: session, epoch, revision, expected_version, expected_commit, newest, newest_chain, commit_id, seq:number, watermark:number, body, shown, context_tokens:number, tail_tokens:number, open_calls, basis, images:number, images_before:number, interactions:number, messages:number, quality, record, channel, used, is_due:number, entries...
-- expected_commit, newest, newest_chain: as in commit.lua
-- returns: the new version or 0 when the session changed meanwhile, then how many turns left
local seen = redis.call('HMGET', meta, 'epoch', 'settings', 'version', 'counted_seq', 'last_seq', 'expires_at',
  'settings_id', 'commit_id', 'chain')
local found = newest ~= '' and redis.call('XRANGE', log, newest, newest)[1]
local is_same = newest == '' or (found and (found[2][14] or found[2][6] .. ' ' .. found[2][10]) == newest_chain)
if not is_same or seen[1] ~= epoch or (seen[2] or '0') .. (seen[7] or '') ~= revision
  or (seen[3] or '0') ~= expected_version or (seen[8] or '') ~= expected_commit then
  return {0, 0}
end
local lost = 0
local after = string.format('%.0f', seq + 1)
for _, entry in ipairs(redis.call('XRANGE', log, after, '+')) do
  local own = string.match(entry[1], '^%d+')
  local tokens = redis.call('HGET', counts, own) or ''
  redis.call('XADD', covered, '*', 'seq', own, 'tokens', tokens, 'state', 'rolled-back', 'by', commit_id,
    unpack(entry[2]))
  lost = lost + 1
end
-- Turns that left the log before are in the archive, or on their way there before this mark.
redis.call('XADD', covered, '*', 'after', seq, 'through', seen[5] or '0', 'state', 'rolled-back', 'by', commit_id)

-- Nine values a turn: seq, tokens, messages, bound, turn_id, fields, at, blobs, chain or nothing.
local counted = tonumber(seen[4]) or 0
local newly_counted = 0
redis.call('DEL', log, counts)
for at = 1, #entries, 9 do
  redis.call('XADD', log, entries[at] .. '-0', 'messages', entries[at + 2], 'bound', entries[at + 3],
    'turn_id', entries[at + 4], 'fields', entries[at + 5], 'at', entries[at + 6],
    'blobs', entries[at + 7], unpack(entries[at + 8] ~= '' and {'chain', entries[at + 8]} or {}))
  redis.call('HSET', counts, entries[at], entries[at + 1])
  if tonumber(entries[at]) > counted then
    newly_counted = newly_counted + tonumber(entries[at + 1])
  end
end
redis.call('ZREMRANGEBYSCORE', ids, after, '+inf')
-- A key without members is gone, and the next push would make one without a lifetime.
if #entries == 0 then
  redis.call('XADD', log, '0-1', 'none', '')
  redis.call('XDEL', log, '0-1')
end
redis.call('ZADD', ids, 0, '')

local version = redis.call('HINCRBY', meta, 'version', 1)
redis.call('SET', context, body)
redis.call('HDEL', meta, 'look_bound', 'put_off', 'model_failures', 'deferred', 'idle', 'failures', 'error', 'parked_at',
  'waits', 'waits_at', 'waits_why')
redis.call('ZREM', parked, session)
redis.call('HSET', meta, 'watermark', watermark, 'context_tokens', context_tokens, 'tail_tokens', tail_tokens,
  'counted_seq', seen[5] or '0', 'pending', 0, 'open_calls', open_calls, 'basis', basis, 'images', images,
  'images_before', images_before, 'interactions', interactions, 'messages', messages, 'commit_id', commit_id, 'shown', shown,
  'chain', redis.sha1hex((seen[9] or seen[1]) .. ' ' .. commit_id))
redis.call('HINCRBY', meta, 'history_tokens', newly_counted)
if quality ~= '' then
  redis.call('HSET', meta, 'quality', quality)
else
  redis.call('HDEL', meta, 'quality')
end
for _, stream in ipairs({checkpoints, named}) do
  for _, entry in ipairs(redis.call('XRANGE', stream, '-', '+')) do
    if tonumber(entry[2][4]) > seq or entry[1] .. ' ' .. entry[2][2] == used then
      redis.call('XDEL', stream, entry[1])
    end
  end
end
redis.call('XADD', compactions, '*', 'record', record)
redis.call('XADD', commits, '*', 'version', version, 'record', record, 'context', body, 'detail', '',
  'commit_id', commit_id)
for _, key in ipairs({context, log, ids, counts, covered, commits, compactions}) do
  redis.call('PEXPIREAT', key, seen[6])
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', unarchived, 'NX', now, session)
-- What the policy asks for beside tokens is for an estimate to decide.
redis.call('ZADD', backlog, 'LT', now, session)
redis.call('ZREM', due, session)
-- Nobody wants an awaited summary any more: a worker will see that, and end its batch.
if is_due == 1 or redis.call('EXISTS', batch) == 1 then
  redis.call('ZADD', due, now, session)
end
redis.call('PUBLISH', channel, record)
return {version, lost}
