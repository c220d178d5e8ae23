-- Look at a session in the backlog later: its last estimate failed for no passing reason.
-- KEYS: backlog, meta
-- ARGV: session, after_ms:number
-- full: goes on
-- returns: nothing of use
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('EXISTS', meta) == 1 then
  redis.call('HSET', meta, 'postponed_until', now + after_ms)
end
return redis.call('ZADD', backlog, 'XX', now + after_ms, session)
