-- Write the context, if no commit and no change of policy or prompt came since it was loaded; turns it covers leave the log.
-- KEYS: context, facts, meta, log, counts, covered, commits, compactions, lease, due, parked, unarchived
-- ARGV: session, epoch, revision, expected_version, expected_commit, newest, newest_chain, commit_id, owner, body, shown, known, watermark:number, context_tokens:number, images:number, images_covered:number, interactions:number, messages:number, hard:number, soft_ratio:number, keep_records:number, summarized:number, record, detail, quality, channel, elided...
-- expected_commit, newest, newest_chain: the last commit, and the newest turn it was planned from and that turn's chain (without one, its turn_id and time): positions alone are given out again where Redis returned to an earlier state
-- shown: sha256 of the context's images; a cipher hides them in the body
-- full: goes on
-- returns: the new version or 0 when the session changed meanwhile, then 1 when it is over its soft limit still, with what its uncounted turns are expected to have
local seen = redis.call('HMGET', meta, 'epoch', 'version', 'tail_tokens', 'system_tokens', 'expires_at',
  'settings', 'settings_id', 'commit_id', 'tools_tokens', 'pending', 'bound_ratio', 'counted_seq')
local found = newest ~= '' and redis.call('XRANGE', log, newest, newest)[1]
local is_same = newest == '' or (found and (found[2][14] or found[2][6] .. ' ' .. found[2][10]) == newest_chain)
if not is_same or seen[1] ~= epoch or (seen[2] or '0') ~= expected_version or (seen[8] or '') ~= expected_commit
  or (seen[6] or '0') .. (seen[7] or '') ~= revision then
  return {0, 0}
end
-- Redis returned to where these turns were not counted: what they cost is not known here.
if (tonumber(seen[12]) or 0) < watermark then
  return {0, 0}
end
local tail = tonumber(seen[3]) or 0

for _, entry in ipairs(redis.call('XRANGE', log, '-', watermark)) do
  local seq = string.match(entry[1], '^%d+')
  local tokens = redis.call('HGET', counts, seq) or '0'
  redis.call('XADD', covered, '*', 'seq', seq, 'tokens', tokens, 'state', 'kept', 'by', commit_id, unpack(entry[2]))
  tail = tail - tonumber(tokens)
  redis.call('HDEL', counts, seq)
end
redis.call('XTRIM', log, 'MINID', string.format('%.0f', watermark + 1))

-- seq, tokens as read from now on: elisions change what a turn still in the log costs.
for at = 1, #elided, 2 do
  local before = tonumber(redis.call('HGET', counts, elided[at]))
  if before then
    redis.call('HSET', counts, elided[at], elided[at + 1])
    tail = tail - before + tonumber(elided[at + 1])
  end
end

local version = redis.call('HINCRBY', meta, 'version', 1)
redis.call('SET', context, body)
if known ~= '' then
  redis.call('SET', facts, known)
else
  redis.call('DEL', facts)
end
local system = (tonumber(seen[4]) or 0) + (tonumber(seen[9]) or 0)
local soft = system + math.floor((hard - system) * soft_ratio)
redis.call('HSET', meta, 'watermark', watermark, 'context_tokens', context_tokens, 'tail_tokens', tail,
  'look_tokens', soft, 'summarized', summarized, 'commit_id', commit_id, 'shown', shown)
redis.call('HINCRBY', meta, 'compactions', 1)
redis.call('HDEL', meta, 'put_off', 'model_failures', 'deferred', 'stale', 'spent', 'failures', 'error',
  'waits', 'waits_at', 'waits_why')
if redis.call('HDEL', meta, 'parked_at') == 1 then
  redis.call('ZREM', parked, session)
end
-- What the compaction took away; turns counted meanwhile have been added already.
redis.call('HINCRBY', meta, 'images', 0 - images)
redis.call('HINCRBY', meta, 'images_before', images_covered)
redis.call('HINCRBY', meta, 'interactions', 0 - interactions)
redis.call('HINCRBY', meta, 'messages', 0 - messages)
if quality ~= '' then
  redis.call('HSET', meta, 'quality', quality)
end
redis.call('XADD', compactions, 'MAXLEN', '~', keep_records, '*', 'record', record)
redis.call('XADD', commits, '*', 'version', version, 'record', record, 'context', body, 'detail', detail, 'commit_id', commit_id)
for _, key in ipairs({context, facts, covered, commits, compactions}) do
  redis.call('PEXPIREAT', key, seen[5])
end

if redis.call('GET', lease) == owner then
  redis.call('DEL', lease)
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', unarchived, 'NX', now, session)
local over = 0
-- Pushes over the limit relied on this job to look for what came meanwhile.
local expected = (tonumber(seen[10]) or 0) * (tonumber(seen[11]) or 0)
if system + context_tokens + tail + expected > soft then
  redis.call('ZADD', due, now, session)
  over = 1
else
  redis.call('ZREM', due, session)
end
redis.call('PUBLISH', channel, record)
return {version, over}
