-- Whether a model may be asked now: the breaker is closed, the endpoint wants no pause, and both budgets have room.
-- KEYS: gate
-- ARGV: place, model, requests_per_minute:number, tokens_per_minute:number, tokens:number, probe_ms:number, ttl_ms:number
-- full: goes on
-- returns: 1, the round the call belongs to; or 0, ms until it is worth asking again, and why not: open or limited
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local seen = redis.call('HMGET', gate, 'open_until', 'probe_until', 'blocked_until', 'round',
  'requests_left', 'tokens_left', 'filled_at', 'minute')
local open_until = tonumber(seen[1]) or 0
local busy_until = math.max(open_until, tonumber(seen[2]) or 0)
if busy_until > now then
  return {0, busy_until - now, 'open'}
end
local blocked_until = tonumber(seen[3]) or 0
if blocked_until > now then
  return {0, blocked_until - now, 'limited'}
end

-- A bucket holds ten seconds' worth and is filled so slowly that with a full one no minute has more than the limit.
local minute_ms, share = 60000, 6
local function filled(burst, rate, left)
  return math.min(burst, (tonumber(left) or burst) + math.max(now - (tonumber(seen[7]) or now), 0) * rate)
end
local wait = 0
local requests_left, tokens_left
if requests_per_minute > 0 then
  local burst = math.max(math.floor(requests_per_minute / share), 1)
  local rate = (requests_per_minute - burst + 1) / minute_ms
  requests_left = filled(burst, rate, seen[5])
  wait = math.max(wait, (1 - requests_left) / rate)
end
if tokens_per_minute > 0 then
  local burst = tokens_per_minute / share
  local rate = (tokens_per_minute - burst) / minute_ms
  tokens_left = filled(burst, rate, seen[6])
  -- A call larger than the bucket takes a full one, and leaves a debt.
  wait = math.max(wait, (math.min(tokens, burst) - tokens_left) / rate)
end
if wait > 0 then
  return {0, math.ceil(wait), 'limited'}
end
if requests_left then
  redis.call('HSET', gate, 'requests_left', string.format('%.4f', requests_left - 1))
end
if tokens_left then
  redis.call('HSET', gate, 'tokens_left', string.format('%.4f', tokens_left - tokens))
end

local round = tonumber(seen[4]) or 0
if open_until > 0 then
  -- Half open: one call at a time tries the endpoint. If its worker dies, the next call may once this right has expired.
  round = round + 1
  redis.call('HSET', gate, 'probe_until', now + probe_ms)
end
local minute = math.floor(now / minute_ms)
if tonumber(seen[8]) ~= minute then
  redis.call('HSET', gate, 'minute', minute, 'requests', 0, 'tokens', 0)
end
redis.call('HINCRBY', gate, 'requests', 1)
redis.call('HINCRBY', gate, 'tokens', tokens)
redis.call('HSET', gate, 'place', place, 'model', model, 'round', round, 'filled_at', now)
redis.call('PEXPIRE', gate, ttl_ms)
return {1, round}
