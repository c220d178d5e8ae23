-- Look at a session in the backlog later: its last estimate failed for no passing reason.
-- KEYS: backlog
-- ARGV: session, after_ms:number
-- returns: nothing of use
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZADD', backlog, 'XX', now + after_ms, session)
