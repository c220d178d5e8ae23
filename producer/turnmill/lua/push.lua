-- Append one turn to the session's log, unless its turn_id was pushed before.
-- KEYS: meta, log, ids, counts, context, covered, compactions, backlog, index
-- ARGV: session, turn_id, messages, fields, bound:number, ttl_ms:number, window:number
-- returns: seq, 1 when a hint is needed, 1 when the turn was there already
local known = redis.call('ZSCORE', ids, turn_id)
if known then
  return {tonumber(known), 0, 1}
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local seen = redis.call('HMGET', meta, 'epoch', 'ttl_ms', 'expires_at')
if not seen[1] then
  redis.call('HSET', meta, 'epoch', time[1] .. string.format('%06d', time[2]))
end

local seq = redis.call('HINCRBY', meta, 'last_seq', 1)
redis.call('XADD', log, seq .. '-0', 'messages', messages, 'bound', bound, 'turn_id', turn_id,
  'fields', fields)
redis.call('ZADD', ids, seq, turn_id)
if seq > window then
  redis.call('ZREMRANGEBYSCORE', ids, '-inf', seq - window)
end

-- Renewing on every push would cost a command per key; a hundredth of the lifetime is near enough.
-- The first push always does: its keys are new.
local lifetime = tonumber(seen[2]) or ttl_ms
local expires_at = now + lifetime
if seq == 1 or not seen[3] or expires_at - tonumber(seen[3]) > lifetime / 100 or tonumber(seen[3]) > expires_at then
  redis.call('HSET', meta, 'expires_at', string.format('%.0f', expires_at))
  for _, key in ipairs({meta, log, ids, counts, context, covered, compactions}) do
    redis.call('PEXPIREAT', key, string.format('%.0f', expires_at))
  end
end

-- Once per burst: nobody needs the time of a last push more exactly than that.
local hint = redis.call('ZADD', backlog, 'NX', now, session)
if hint == 1 or seq == 1 then
  redis.call('ZADD', index, now, session)
end
return {seq, hint, 0}
