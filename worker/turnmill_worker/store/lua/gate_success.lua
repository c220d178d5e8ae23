-- An endpoint answered: its failures are cleared, and the tokens the call took are corrected.
-- KEYS: gate
-- ARGV: round:number, estimated:number, used:number
-- full: goes on
-- returns: 1 when that closed its breaker, else 0
local seen = redis.call('HMGET', gate, 'round', 'open_until', 'tokens_left')
if not seen[1] then
  return 0
end
redis.call('HINCRBY', gate, 'tokens', used - estimated)
if seen[3] then
  redis.call('HINCRBYFLOAT', gate, 'tokens_left', estimated - used)
end
redis.call('HDEL', gate, 'pause_ms')
-- A call of an earlier round says nothing about an endpoint that was found failing since.
if tonumber(seen[1]) ~= round then
  return 0
end
redis.call('HDEL', gate, 'failures', 'slow', 'refusals', 'openings', 'open_until', 'probe_until')
if not seen[2] then
  return 0
end
redis.call('HINCRBY', gate, 'round', 1)
return 1
