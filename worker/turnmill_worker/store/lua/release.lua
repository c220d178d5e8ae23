-- Give up a lease: the session leaves the due list, or is due again after a while, or with more tokens.
-- KEYS: meta, log, lease, due, backlog
-- ARGV: session, owner, counted_seq, revision, newest, newest_chain, again_ms:number, idle_ms:number, put_off:number, spent, stale:number, waits, why, below:number
-- newest, newest_chain: as in commit.lua
-- idle_ms: how long nobody may push until it is due all the same, or 0
-- spent: on models since the last commit, or nothing new; stale: 1 when a summary was written for nothing; waits: for its turn, model or batch, or nothing; why: its models wrote nothing, or nothing new; below: tokens up to which it may wait, or is put off
-- returns: 1 when it is due at once: turns were counted or the revision changed since, or it has no room left to wait; else 0
if redis.call('GET', lease) ~= owner then
  return 0
end
redis.call('DEL', lease)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local seen = redis.call('HMGET', meta, 'epoch', 'counted_seq', 'settings', 'system_tokens', 'context_tokens', 'tail_tokens', 'policy_at', 'settings_id',
  'tools_tokens')
if not seen[1] then
  redis.call('ZREM', due, session)
  return 0
end
if spent ~= '' then
  redis.call('HSET', meta, 'spent', spent)
end
if stale == 1 then
  redis.call('HINCRBY', meta, 'stale', 1)
end
local is_small = (tonumber(seen[4]) or 0) + (tonumber(seen[5]) or 0) + (tonumber(seen[6]) or 0)
  + (tonumber(seen[9]) or 0) <= below
if waits == '' then
  redis.call('HDEL', meta, 'waits', 'waits_at', 'waits_why')
else
  redis.call('HSETNX', meta, 'waits_at', now)
  redis.call('HSET', meta, 'waits', waits)
end
if why ~= '' then
  redis.call('HSET', meta, 'waits_why', why)
end
-- A new policy may be the remedy: under it the session neither waits nor counts what failed before.
local is_remedied = (tonumber(seen[7]) or 0) > (tonumber(string.match(revision, '^%d*')) or 0)
if waits == 'model' and not is_remedied then
  redis.call('HINCRBY', meta, 'model_failures', 1)
  if is_small then
    redis.call('HSET', meta, 'deferred', 1)
  end
end
if waits == 'model' and (is_remedied or not is_small) then
  redis.call('ZADD', due, now, session)
  return 1
end
if again_ms >= 0 then
  redis.call('ZADD', due, now + again_ms, session)
  return 0
end
-- A few turns that came meanwhile do not make good enough what was not.
local found = newest ~= '' and redis.call('XRANGE', log, newest, newest)[1]
local is_same = newest == '' or (found and (found[2][14] or found[2][6] .. ' ' .. found[2][10]) == newest_chain)
if not is_same or (seen[3] or '0') .. (seen[8] or '') ~= revision or ((seen[2] or '0') ~= counted_seq and not (put_off > 0 and is_small)) then
  redis.call('ZADD', due, now, session)
  return 1
end
if idle_ms > 0 then
  redis.call('HSET', meta, 'idle', 1)
  redis.call('ZADD', due, now + idle_ms, session)
else
  redis.call('ZREM', due, session)
end
-- Pushes relied on this job to look for what came meanwhile.
redis.call('ZADD', backlog, 'XX', 'LT', now, session)
-- The next turn may make possible what was not; or what was put off waits for its tokens.
if put_off > 0 then
  redis.call('HSET', meta, 'put_off', put_off, 'look_tokens', put_off)
else
  redis.call('HDEL', meta, 'look_bound')
end
return 0
