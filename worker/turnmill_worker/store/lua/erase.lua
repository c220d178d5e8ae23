-- Erase turns: others stand in their places, wherever they are, and the context is one made without them.
-- KEYS: context, facts, meta, log, counts, covered, commits, compactions, checkpoints, named, events, ids, batch, backlog, due, parked, unarchived
-- ARGV: session, epoch, revision, expected_version, expected_commit, newest, newest_chain, commit_id, through:number, watermark:number, body, shown, known, context_tokens:number, tail_tokens:number, open_calls, basis, images:number, images_before:number, interactions:number, messages:number, record, channel, is_due:number, remade:number, restored:number, erased:number, contexts:number, words...
-- expected_commit, newest, newest_chain: as in commit.lua
-- through: the newest turn that was looked at; later ones stay, not counted
-- remade: the context is an earlier one, so that the one that was read goes from every place
-- words: nine for each turn of the log, as in rollback.lua, five for each erased one, two for each context, one for each checkpoint that goes
-- full: goes on
-- returns: the new version, or 0 when the session changed meanwhile
local seen = redis.call('HMGET', meta, 'epoch', 'settings', 'version', 'counted_seq', 'expires_at', 'settings_id', 'commit_id')
local found = newest ~= '' and redis.call('XRANGE', log, newest, newest)[1]
local is_same = newest == '' or (found and (found[2][14] or found[2][6] .. ' ' .. found[2][10]) == newest_chain)
if not is_same or seen[1] ~= epoch or (seen[2] or '0') .. (seen[6] or '') ~= revision
  or (seen[3] or '0') ~= expected_version or (seen[7] or '') ~= expected_commit then
  return 0
end
local turns_end = restored * 9
local erased_end = turns_end + erased * 5
local contexts_end = erased_end + contexts * 2

-- seq, messages, bound, fields, turn_id.
local instead = {}
for at = turns_end + 1, erased_end, 5 do
  instead[words[at]] = {messages = words[at + 1], bound = words[at + 2], fields = words[at + 3],
    turn_id = words[at + 4], blobs = ''}
  local after = '(' .. string.format('%.0f', tonumber(words[at]) + 1)
  for _, known_id in ipairs(redis.call('ZRANGEBYSCORE', ids, words[at], after)) do
    redis.call('ZREM', ids, known_id)
    -- Without the fraction, which was made of its words.
    redis.call('ZADD', ids, words[at], words[at + 4])
  end
  -- What a framework kept of the turn; it reads what is left.
  local kept = redis.call('HGET', events, 'seq:' .. words[at])
  if kept then
    redis.call('HDEL', events, kept, 'seq:' .. words[at])
  end
end
local made_of_them = {}
for at = erased_end + 1, contexts_end, 2 do
  made_of_them[words[at]] = {context = words[at + 1], detail = ''}
end
local dropped = {}
for at = contexts_end + 1, #words do
  dropped[words[at]] = true
end

-- A deleted entry's bytes stay in its node, and so in Redis' files: every stream is written anew.
local function rewrite(stream, changed)
  local entries = redis.call('XRANGE', stream, '-', '+')
  if #entries == 0 then
    return
  end
  redis.call('DEL', stream)
  for _, entry in ipairs(entries) do
    if changed(entry) then
      redis.call('XADD', stream, entry[1], unpack(entry[2]))
    end
  end
  redis.call('PEXPIREAT', stream, seen[5])
end

local function replace(fields, others)
  for at = 1, others and #fields or 0, 2 do
    fields[at + 1] = others[fields[at]] or fields[at + 1]
  end
  return true
end

local function value_of(entry, name)
  for at = 1, #entry[2], 2 do
    if entry[2][at] == name then
      return entry[2][at + 1]
    end
  end
end

rewrite(covered, function(entry)
  return replace(entry[2], instead[value_of(entry, 'seq')])
end)
rewrite(commits, function(entry)
  return replace(entry[2], made_of_them[value_of(entry, 'version')])
end)
for _, stream in ipairs({checkpoints, named}) do
  rewrite(stream, function(entry)
    -- One that was made meanwhile has the context that was read.
    local is_late = remade == 1 and value_of(entry, 'version') == expected_version
    return not (is_late or dropped[entry[1] .. ' ' .. entry[2][2]])
  end)
end

-- A turn keeps its chain, erased or not: the same turns before it. What newer versions keep beside stays as it is.
local logged, later = {}, {}
local pending, history = 0, 0
for _, entry in ipairs(redis.call('XRANGE', log, '-', '+')) do
  local seq = string.match(entry[1], '^%d+')
  if tonumber(seq) > through then
    later[#later + 1] = entry
    pending = pending + tonumber(value_of(entry, 'bound'))
    history = history - tonumber(redis.call('HGET', counts, seq) or '0')
  else
    logged[seq] = entry[2]
  end
end
local counted = tonumber(seen[4]) or 0
redis.call('DEL', log, counts)
for at = 1, turns_end, 9 do
  local seq = words[at]
  local fields = {'messages', words[at + 2], 'bound', words[at + 3], 'turn_id', words[at + 4],
    'fields', words[at + 5], 'at', words[at + 6], 'blobs', words[at + 7],
    unpack(words[at + 8] ~= '' and {'chain', words[at + 8]} or {})}
  for more = #fields + 1, #(logged[seq] or {}) do
    fields[more] = logged[seq][more]
  end
  redis.call('XADD', log, seq .. '-0', unpack(fields))
  redis.call('HSET', counts, seq, words[at + 1])
  if tonumber(seq) > counted then
    history = history + tonumber(words[at + 1])
  end
end
for _, entry in ipairs(later) do
  redis.call('XADD', log, entry[1], unpack(entry[2]))
end
-- A key without entries is gone, and the next push would make one without a lifetime.
if restored + #later == 0 then
  redis.call('XADD', log, '0-1', 'none', '')
  redis.call('XDEL', log, '0-1')
end

local version = redis.call('HINCRBY', meta, 'version', 1)
redis.call('SET', context, body)
redis.call('DEL', facts)
if known ~= '' then
  redis.call('SET', facts, known)
end
redis.call('HDEL', meta, 'look_bound', 'put_off', 'model_failures', 'deferred', 'idle', 'failures', 'error', 'parked_at',
  'waits', 'waits_at', 'waits_why', 'quality', 'stale')
redis.call('ZREM', parked, session)
redis.call('HSET', meta, 'watermark', watermark, 'context_tokens', context_tokens, 'tail_tokens', tail_tokens,
  'counted_seq', string.format('%.0f', through), 'pending', pending, 'open_calls', open_calls, 'basis', basis,
  'images', images, 'images_before', images_before, 'interactions', interactions, 'messages', messages,
  'commit_id', commit_id, 'shown', shown)
redis.call('HINCRBY', meta, 'history_tokens', history)
redis.call('XADD', compactions, '*', 'record', record)
redis.call('XADD', commits, '*', 'version', version, 'record', record, 'context', body, 'detail', '',
  'commit_id', commit_id)
for _, key in ipairs({context, facts, log, counts, commits, compactions}) do
  redis.call('PEXPIREAT', key, seen[5])
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', unarchived, 'NX', now, session)
redis.call('ZADD', backlog, 'LT', now, session)
redis.call('ZREM', due, session)
-- Nobody may use an awaited summary any more: a worker will see that, and end its batch.
if is_due == 1 or redis.call('EXISTS', batch) == 1 then
  redis.call('ZADD', due, now, session)
end
redis.call('PUBLISH', channel, record)
return version
