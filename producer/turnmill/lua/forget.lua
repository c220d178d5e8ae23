-- Remove a session from Redis altogether.
-- KEYS: meta, log, ids, counts, context, covered, compactions, lease, backlog, due, index
-- ARGV: session
-- returns: 1 when there was such a session, else 0
redis.call('ZREM', backlog, session)
redis.call('ZREM', due, session)
local listed = redis.call('ZREM', index, session)
local removed = redis.call('DEL', meta, log, ids, counts, context, covered, compactions, lease)
return (listed + removed > 0) and 1 or 0
