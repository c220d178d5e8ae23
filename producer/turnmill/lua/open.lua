-- Create the session, or change its policy, system prompt or tools; an empty policy means "as it was".
-- KEYS: expiring..., events, state, batch, backlog, due, parked, index, blob
-- ARGV: session, policy, policy_name, hard:number, ttl_ms:number, checkpoint_every:number, keep_checkpoints:number, has_system:number, system, system_tokens:number, has_tools:number, tools, tools_tokens:number, tools_bound:number, tools_bytes:number, is_final:number, min_room:number
-- returns: 1 created, 2 changed, 3 unchanged, then 1 when a hint is needed; or 0, tokens of system prompt and tools, hard limit: nothing was changed, because they leave no room, or may not by a bound that is not final
local seen = redis.call('HMGET', meta, 'epoch', 'policy', 'system', 'hard', 'system_tokens', 'ttl_ms',
  'tools', 'tools_tokens')
local created = not seen[1]
local new_policy = policy ~= '' and policy ~= seen[2]
local new_system = has_system == 1 and system ~= (seen[3] or '')
local new_tools = has_tools == 1 and tools ~= (seen[7] or '')

local limit = tonumber(seen[4]) or hard
if policy ~= '' then
  limit = hard
end
local tokens = new_system and system_tokens or tonumber(seen[5]) or 0
tokens = tokens + (new_tools and tools_tokens or tonumber(seen[8]) or 0)
local doubt = (new_system or new_tools) and is_final == 0 and tokens > limit / 2
if tokens > 0 and (doubt or tokens + min_room > limit) then
  return {0, tokens, limit}
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if created then
  redis.call('HSET', meta, 'epoch', time[1] .. string.format('%06d', time[2]))
end
if new_policy then
  redis.call('HSET', meta, 'policy', policy, 'hard', hard, 'ttl_ms', ttl_ms,
    'checkpoint_every', checkpoint_every, 'keep_checkpoints', keep_checkpoints)
end
if policy ~= '' then
  redis.call('HSET', meta, 'policy_name', policy_name)
end
if new_system then
  redis.call('HSET', meta, 'system', system, 'system_tokens', system_tokens)
end
if new_tools then
  redis.call('HSET', meta, 'tools', tools, 'tools_tokens', tools_tokens, 'tools_bound', tools_bound, 'tools_bytes', tools_bytes)
end

if created or new_policy then
  local lifetime = policy ~= '' and ttl_ms or tonumber(seen[6]) or ttl_ms
  local expires_at = string.format('%.0f', now + lifetime)
  redis.call('HSET', meta, 'expires_at', expires_at)
  for _, keys in ipairs({expiring, {events, state}}) do
    for _, key in ipairs(keys) do
      redis.call('PEXPIREAT', key, expires_at)
    end
  end
  -- An image lives as long as the last of its sessions.
  for _, field in ipairs(redis.call('HKEYS', meta)) do
    local hash = string.match(field, '^blob:(%x+)$')
    for _, key in ipairs(hash and {blob .. hash, blob .. hash .. ':held'} or {}) do
      if redis.call('PTTL', key) < lifetime then
        redis.call('PEXPIREAT', key, expires_at)
      end
    end
  end
end
if created then
  redis.call('ZADD', index, now, session)
end
if new_policy or new_system or new_tools then
  -- Counts may rest on another encoding now, and the limits may have moved: look at it again.
  local settings = redis.call('HINCRBY', meta, 'settings', 1)
  -- The number alone may be given out again, where Redis returned to an earlier state.
  redis.call('HSET', meta, 'settings_id', ':' .. redis.sha1hex((policy ~= '' and policy or seen[2] or '') .. ' '
    .. (has_system == 1 and system or seen[3] or '') .. (has_tools == 1 and tools or seen[7] or '')))
  redis.call('HDEL', meta, 'counted_settings', 'look_bound', 'postponed_until', 'put_off', 'error')
  if redis.call('HDEL', meta, 'parked_at') == 1 then
    redis.call('ZREM', parked, session)
  end
  local waited = redis.call('HDEL', meta, 'failures')
  -- A new policy may be the remedy it waits for; a new prompt is not: some agents change it with every step.
  if new_policy then
    redis.call('HSET', meta, 'policy_at', settings)
    redis.call('HDEL', meta, 'model_failures', 'summarized')
    waited = waited + redis.call('HDEL', meta, 'deferred')
  end
  if waited > 0 then
    redis.call('ZREM', due, session)
  end
  -- Nobody wants a summary that was asked for under other settings: a worker will see that, and end its batch.
  if redis.call('EXISTS', batch) == 1 then
    redis.call('ZADD', due, now, session)
  end
  return {created and 1 or 2, redis.call('ZADD', backlog, 'LT', 'CH', now, session)}
end
return {created and 1 or 3, 0}
