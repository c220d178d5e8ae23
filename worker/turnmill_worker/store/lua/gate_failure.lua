-- A call failed: too many failures in a row open the breaker, fewer when the endpoint refuses everybody; 429 makes a pause.
-- KEYS: gate
-- ARGV: round:number, estimated:number, kind, error, why, retry_after_ms:number, most_failures:number, slow_share:number, most_refusals:number, open_ms:number, longest_open_ms:number, shut_ms:number, pause_ms:number, longest_pause_ms:number
-- kind: failed, slow (no answer in time: slow_share of them are a failure), limited (429) or shut (key, model or quota); retry_after_ms is -1 when the endpoint did not say
-- full: goes on
-- returns: ms the breaker was opened for, else 0
local seen = redis.call('HMGET', gate, 'round', 'open_until', 'blocked_until', 'pause_ms', 'openings', 'tokens_left')
if not seen[1] then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', gate, 'error', error, 'why', why, 'error_at', now)
redis.call('HINCRBY', gate, 'tokens', 0 - estimated)
if seen[6] then
  redis.call('HINCRBYFLOAT', gate, 'tokens_left', estimated)
end

local blocked_until = tonumber(seen[3]) or 0
if retry_after_ms >= 0 then
  local asked = now + math.min(retry_after_ms, longest_open_ms)
  redis.call('HSET', gate, 'blocked_until', math.max(asked, blocked_until))
elseif kind == 'limited' and blocked_until <= now then
  -- Of many calls that were under way together, the first makes the pause.
  local pause = math.min(tonumber(seen[4]) and tonumber(seen[4]) * 2 or pause_ms, longest_pause_ms)
  redis.call('HSET', gate, 'blocked_until', now + pause, 'pause_ms', pause)
end

if tonumber(seen[1]) ~= round then
  return 0
end
local was_open = seen[2]
if kind == 'limited' then
  -- The endpoint works, but has too much to do.
  redis.call('HDEL', gate, 'failures', 'slow', 'refusals', 'openings', 'open_until', 'probe_until')
  if was_open then
    redis.call('HINCRBY', gate, 'round', 1)
  end
  return 0
end
local slow = redis.call('HINCRBY', gate, 'slow', kind == 'slow' and 1 or 0)
local failures = redis.call('HINCRBY', gate, 'failures', kind == 'slow' and 0 or 1) + math.floor(slow / slow_share)
local refusals = kind == 'shut' and redis.call('HINCRBY', gate, 'refusals', 1) or 0
if not was_open and failures < most_failures and refusals < most_refusals then
  return 0
end
local length = shut_ms
if kind == 'failed' or kind == 'slow' then
  local openings = redis.call('HINCRBY', gate, 'openings', 1)
  length = math.min(open_ms * 2 ^ (openings - 1), longest_open_ms)
end
redis.call('HDEL', gate, 'probe_until')
redis.call('HSET', gate, 'open_until', now + length)
redis.call('HINCRBY', gate, 'round', 1)
return length
