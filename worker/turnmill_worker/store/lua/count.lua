-- Store exact token counts; leave the backlog only if nothing newer arrived; join the due list when asked.
-- KEYS: meta, log, counts, backlog, due
-- ARGV: session, epoch, revision, newest, newest_chain, basis, system_tokens:number, tools_tokens:number, open_calls, bounds:number, images:number, interactions:number, messages:number, is_due:number, is_urgent:number, handover_ms:number, idle_ms:number, look_tokens, look_bound, bound_ratio, told, ratios, pairs...
-- newest, newest_chain: the newest turn counted, as in commit.lua
-- bounds: of the turns counted; handover_ms: how long a job that is to write its summary may take to begin, or 0
-- idle_ms: after how long without a push it is due all the same, or 0
-- look_tokens, look_bound: tokens, expected and at most, from which on a push asks for a count; bound_ratio: tokens expected for one of a bound
-- told, ratios: what was learned from, and the ratios with it; or nothing
-- full: goes on
-- returns: counted_seq, 1 when the backlog still holds the session, 1 when it newly became due; or -1 when policy, prompt, incarnation or counted_seq changed meanwhile
local seen = redis.call('HMGET', meta, 'epoch', 'settings', 'basis', 'counted_seq', 'last_seq',
  'tail_tokens', 'expires_at', 'settings_id', 'watermark', 'idle')
local found = newest ~= '' and redis.call('XRANGE', log, newest, newest)[1]
local is_same = newest == '' or (found and (found[2][14] or found[2][6] .. ' ' .. found[2][10]) == newest_chain)
if not is_same or seen[1] ~= epoch or (seen[2] or '0') .. (seen[8] or '') ~= revision or (seen[3] or basis) ~= basis then
  return {-1, 0, 0}
end
local counted = math.max(tonumber(seen[4]) or 0, tonumber(seen[9]) or 0)
local before = tonumber(seen[6]) or 0
local tail = before

-- A redelivered job brings turns that are counted already.
if #pairs > 0 and tonumber(pairs[1]) ~= counted + 1 then
  return {-1, 0, 0}
end
for at = 1, #pairs, 2 do
  redis.call('HSET', counts, pairs[at], pairs[at + 1])
  tail = tail + tonumber(pairs[at + 1])
  counted = tonumber(pairs[at])
end
redis.call('HSET', meta, 'basis', basis, 'system_tokens', system_tokens, 'counted_seq', counted,
  'tail_tokens', tail, 'counted_settings', revision, 'look_tokens', look_tokens, 'look_bound', look_bound,
  'bound_ratio', bound_ratio)
if tools_tokens > 0 then
  redis.call('HSET', meta, 'tools_tokens', tools_tokens)
end
if told ~= '' then
  redis.call('HSET', meta, 'ratios', ratios)
  if redis.call('HGET', meta, 'told') == told then
    redis.call('HDEL', meta, 'told')
  end
end
-- Without turns nothing shows that no rollback came since they were looked at: leave them.
if #pairs > 0 then
  redis.call('HSET', meta, 'open_calls', open_calls)
end
redis.call('HINCRBY', meta, 'images', images)
redis.call('HINCRBY', meta, 'interactions', interactions)
redis.call('HINCRBY', meta, 'messages', messages)
redis.call('HINCRBY', meta, 'history_tokens', tail - before)
redis.call('PEXPIREAT', counts, seen[7])

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local waiting = 1
if counted >= (tonumber(seen[5]) or 0) then
  redis.call('HSET', meta, 'pending', 0)
  redis.call('ZREM', backlog, session)
  waiting = 0
elseif redis.call('HINCRBY', meta, 'pending', 0 - bounds) < 0 then
  redis.call('HSET', meta, 'pending', 0)
end
local newly_due = 0
if is_due == 1 and redis.call('HEXISTS', meta, 'parked_at') == 0 then
  now = now + handover_ms
  if seen[10] then
    redis.call('HDEL', meta, 'idle')
    redis.call('ZREM', due, session)
  end
  newly_due = redis.call('ZADD', due, 'NX', now, session)
  -- A session that waits for its model has no room left to wait in.
  if is_urgent == 1 and redis.call('HDEL', meta, 'deferred') == 1 then
    redis.call('ZADD', due, now, session)
    newly_due = 1
  end
  if newly_due == 1 and handover_ms > 0 then
    redis.call('HSETNX', meta, 'waits_at', now - handover_ms)
    redis.call('HSET', meta, 'waits', 'turn')
  end
elseif idle_ms > 0 then
  -- It falls quiet with its last push; what it is on the list for otherwise comes first.
  local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  local at = last and string.format('%.0f', tonumber(last[2][10]) + idle_ms)
  if at and redis.call('HEXISTS', meta, 'parked_at') == 0 and (seen[10] or redis.call('ZADD', due, 'NX', at, session) == 1) then
    redis.call('HSET', meta, 'idle', 1)
    redis.call('ZADD', due, at, session)
  end
elseif seen[10] then
  redis.call('HDEL', meta, 'idle')
  redis.call('ZREM', due, session)
end
return {counted, waiting, newly_due}
