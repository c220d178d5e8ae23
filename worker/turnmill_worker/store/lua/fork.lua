-- Begin a session as another one was at a turn: with its settings, its context and its turns.
-- KEYS: expiring..., backlog, due, index, unarchived, blob
-- ARGV: session, until_ms:number, ttl_ms:number, version, commit_id, body, known, record, channel, is_due:number, fields:number, turns:number, covered_turns:number, made:number, automatic:number, named_ones:number, pictures:number, words...
-- until_ms: later than that, nobody knows any more that this session is to begin
-- known: what is known of covered turns, or ''
-- words: two for each field of meta, nine for each turn of the log as in rollback.lua, ten for each covered one (with its state), six for each context committed before, six for each checkpoint, three for each image, then ids of turns with their seqs
-- returns: 1, or 0 when there is such a session, or it is too late
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('EXISTS', meta) == 1 or now > until_ms then
  return 0
end
local at = 1
local function each(times, size, act)
  for _ = 1, times do
    act(unpack(words, at, at + size - 1))
    at = at + size
  end
end
local expires_at = string.format('%.0f', now + ttl_ms)
redis.call('HSET', meta, 'expires_at', expires_at, 'version', version, 'commit_id', commit_id, 'pending', 0)
each(fields, 2, function(name, value)
  redis.call('HSET', meta, name, value)
end)
-- A key without members is gone, and the next push would make one without a lifetime.
redis.call('XADD', log, '0-1', 'none', '')
redis.call('XDEL', log, '0-1')
each(turns, 9, function(seq, tokens, messages, bound, turn_id, fields_of, said_at, blobs, chain)
  redis.call('XADD', log, seq .. '-0', 'messages', messages, 'bound', bound, 'turn_id', turn_id, 'fields', fields_of,
    'at', said_at, 'blobs', blobs, unpack(chain ~= '' and {'chain', chain} or {}))
  redis.call('HSET', counts, seq, tokens)
end)
each(covered_turns, 10, function(seq, tokens, messages, bound, turn_id, fields_of, said_at, blobs, chain, state)
  redis.call('XADD', covered, '*', 'seq', seq, 'tokens', tokens, 'state', state, 'by', '', 'messages', messages,
    'bound', bound, 'turn_id', turn_id, 'fields', fields_of, 'at', said_at, 'blobs', blobs,
    unpack(chain ~= '' and {'chain', chain} or {}))
end)
each(made, 6, function(id, of, was_recorded, was, detail, by)
  redis.call('XADD', commits, id, 'version', of, 'record', was_recorded, 'context', was, 'detail', detail, 'commit_id', by)
end)
local function keep(stream)
  return function(id, name, seq, of, message, was)
    redis.call('XADD', stream, id, 'id', name, 'seq', seq, 'version', of, 'message', message, 'context', was)
  end
end
each(automatic, 6, keep(checkpoints))
each(named_ones, 6, keep(named))
each(pictures, 3, function(hash, kind, data)
  local key = blob .. hash
  redis.call('SET', key, data, 'NX')
  redis.call('HSET', key .. ':held', 'type', kind, 's:' .. session, 1)
  redis.call('HSET', meta, 'pictures', 1, 'blob:' .. hash, 1)
  for _, one in ipairs({key, key .. ':held'}) do
    if redis.call('PTTL', one) < ttl_ms then
      redis.call('PEXPIREAT', one, expires_at)
    end
  end
end)
redis.call('ZADD', ids, 0, '')
while at < #words do
  redis.call('ZADD', ids, words[at], words[at + 1])
  at = at + 2
end

redis.call('SET', context, body)
if known ~= '' then
  redis.call('SET', facts, known)
end
redis.call('XADD', compactions, '*', 'record', record)
redis.call('XADD', commits, '*', 'version', version, 'record', record, 'context', body, 'detail', '', 'commit_id', commit_id)
for _, key in ipairs(expiring) do
  redis.call('PEXPIREAT', key, expires_at)
end
redis.call('ZADD', index, now, session)
redis.call('ZADD', unarchived, 'NX', now, session)
redis.call('ZADD', backlog, 'NX', now, session)
if is_due == 1 then
  redis.call('ZADD', due, now, session)
end
redis.call('PUBLISH', channel, record)
return 1
