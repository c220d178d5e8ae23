-- Append one turn to the session's log, unless its turn_id was pushed before; its images are kept with it.
-- KEYS: expiring..., backlog, index, hinted, blob
-- ARGV: session, turn_id, messages, fields, digest, content, bound:number, counted_by, ttl_ms:number, is_new_id:number, window:number, retry_window:number, checkpoint_every:number, keep_checkpoints:number, hard:number, quiet_ms:number, dialect, told, is_telling:number, images...
-- quiet_ms: how long a turn that makes nothing due may wait to be counted
-- digest: of messages and fields; each turn's chain is made of it and of the chain before: the same chain, the same turns so far
-- content: seven hexadecimal digits of what was said under the id, '' where it is not compared; the fraction of the id's score
-- counted_by: the encoding that the bound is exact by, '' where it is fitted
-- dialect: the provider's shape that the turn came in, '' where nothing tells; the first stays
-- is_new_id: 1 when the id was made for this push, so that only a retry of it can come with it again
-- window: how many of the newest ids are remembered; retry_window: the same where all ids so far were made so
-- told: what the provider counted for the context of a read, or ''; is_telling: 1 when something can be learned from it
-- images: of each its sha256 and media type; their bytes were put before, and expire soon unless a push follows
-- returns: seq or 0 when an image is not there and nothing was stored, 1 when a hint is needed, 1 when the turn was there already or 2 when another one was, the id of the checkpoint made or nothing, the incarnation's epoch unless the turn was there already
local known = redis.call('ZSCORE', ids, turn_id)
local fraction = content ~= '' and tonumber(content, 16) / 2 ^ 28 or 0
if known then
  -- Older versions, erasures and ciphers leave no fraction.
  local score = tonumber(known)
  local first = math.floor(score)
  local is_other = fraction > 0 and score > first and score ~= first + fraction
  return {first, 0, is_other and 2 or 1, false, false}
end
local hashes = {}
for at = 1, #images, 2 do
  hashes[#hashes + 1] = images[at]
  if redis.call('EXISTS', blob .. images[at]) == 0 then
    return {0, 0, 0, false, false}
  end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local now_ms = string.format('%.0f', now)
local seen = redis.call('HMGET', meta, 'epoch', 'ttl_ms', 'expires_at', 'checkpoint_every', 'keep_checkpoints', 'version',
  'system_tokens', 'context_tokens', 'tail_tokens', 'look_tokens', 'look_bound', 'bound_ratio', 'postponed_until', 'chain',
  'tools_tokens', 'hard', 'last_seq', 'pending', 'new_ids')
local epoch = seen[1] or (time[1] .. string.format('%06d', time[2]))
local chain = redis.sha1hex((seen[14] or epoch) .. ' ' .. turn_id .. ' ' .. digest)
-- One write for what each push changes: calls cost more than what they do.
local seq = (tonumber(seen[17]) or 0) + 1
local pending = (tonumber(seen[18]) or 0) + bound
redis.call('HSET', meta, 'chain', chain, 'epoch', epoch, 'last_seq', string.format('%.0f', seq),
  'pending', string.format('%.0f', pending))

if dialect ~= '' then
  redis.call('HSETNX', meta, 'dialect', dialect)
end

local exact = counted_by ~= '' and {'counted_by', counted_by} or {}
redis.call('XADD', log, string.format('%.0f-0', seq), 'messages', messages, 'bound', bound, 'turn_id', turn_id,
  'fields', fields, 'at', now_ms, 'blobs', table.concat(hashes, ' '), 'chain', chain, unpack(exact))
redis.call('ZADD', ids, string.format('%.17g', seq + fraction), turn_id)
if is_new_id == 1 and seq == 1 then
  redis.call('HSET', meta, 'new_ids', 1)
elseif is_new_id == 1 and seen[19] then
  window = retry_window
elseif seen[19] then
  redis.call('HDEL', meta, 'new_ids')
end
if seq > window then
  redis.call('ZREMRANGEBYSCORE', ids, '-inf', '(' .. string.format('%.0f', seq - window + 1))
end

-- A session notes which images it holds, and an image which sessions hold it.
for at = 1, #images, 2 do
  redis.call('HSET', blob .. images[at] .. ':held', 'type', images[at + 1], 's:' .. session, 1)
  redis.call('HSET', meta, 'pictures', 1, 'blob:' .. images[at], 1)
end

local made = false
local every = tonumber(seen[4]) or checkpoint_every
local keep = tonumber(seen[5]) or keep_checkpoints
if every > 0 and keep > 0 and seq % every == 0 then
  local version = seen[6] or '0'
  made = 'turn-' .. string.format('%.0f', seq) .. '-v' .. version
  redis.call('XADD', checkpoints, 'MAXLEN', keep, '*', 'id', made, 'seq', seq, 'version', version,
    'message', '', 'context', redis.call('GET', context) or '')
end

-- Renewing on every push would cost a command per key; a hundredth of the lifetime is near enough.
-- The first push always renews: its keys are new. The key of checkpoints is new once in a while.
local lifetime = tonumber(seen[2]) or ttl_ms
local expires_at = now + lifetime
local until_ms = tonumber(seen[3])
if seq == 1 or not seen[3] or expires_at - tonumber(seen[3]) > lifetime / 100 or tonumber(seen[3]) > expires_at then
  redis.call('HSET', meta, 'expires_at', string.format('%.0f', expires_at))
  for _, key in ipairs(expiring) do
    redis.call('PEXPIREAT', key, string.format('%.0f', expires_at))
  end
  until_ms = expires_at
  hashes = {}
  for _, field in ipairs(redis.call('HKEYS', meta)) do
    hashes[#hashes + 1] = string.match(field, '^blob:(%x+)$')
  end
elseif made then
  redis.call('PEXPIREAT', checkpoints, seen[3])
end
-- An image lives as long as the last of its sessions.
for _, hash in ipairs(hashes) do
  for _, key in ipairs({blob .. hash, blob .. hash .. ':held'}) do
    if now + redis.call('PTTL', key) < until_ms then
      redis.call('PEXPIREAT', key, string.format('%.0f', until_ms))
    end
  end
end

-- Workers noted from how many tokens on something may be due. Below, nobody needs to look yet.
local counted = (tonumber(seen[7]) or 0) + (tonumber(seen[8]) or 0) + (tonumber(seen[9]) or 0)
  + (tonumber(seen[15]) or 0)
local look_tokens, look_bound = tonumber(seen[10]), tonumber(seen[11])
local is_due = not look_bound or counted + pending >= look_bound
  or (look_tokens and counted + pending * (tonumber(seen[12]) or 1) >= look_tokens)
-- What is over its limit by the counted turns alone has its job, which counts the others: a read projects until then.
-- Only so many that their bounds would cost the projection much are counted before.
local limit = tonumber(seen[16]) or hard
if look_bound and counted >= limit and pending < limit / 4 and not (look_tokens and counted < look_tokens) then
  is_due = false
end
-- The first time a worker learns from it at once; later when it counts.
if told ~= '' then
  redis.call('HSET', meta, 'told', told)
  is_due = is_due or (is_telling == 1 and redis.call('HEXISTS', meta, 'ratios') == 0)
end
local hint, listed = 0, 0
if is_due and (tonumber(seen[13]) or 0) <= now then
  listed = redis.call('ZADD', backlog, 'LT', 'CH', now, session)
  -- One job counts all of a shard's sessions that wait. If it does not come in a second, it is asked for again, and
  -- ever more rarely while workers are late: each time all have waited twice as long, or ten seconds.
  hint = redis.call('SET', hinted, 1, 'NX', 'PX', 1000) and 1 or 0
  if hint == 1 then
    local waited = now - tonumber(redis.call('ZRANGE', backlog, 0, 0, 'WITHSCORES')[2])
    if waited > 1000 then
      redis.call('PEXPIRE', hinted, math.min(waited, 10000))
    end
  end
else
  listed = redis.call('ZADD', backlog, 'NX', now + quiet_ms, session)
end
-- Nobody needs the time of a last push more exactly than that.
if listed == 1 or seq == 1 then
  redis.call('ZADD', index, now, session)
end
return {seq, hint, 0, made, epoch}
