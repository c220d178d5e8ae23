-- Let a session wait for its summary, or update how much room it has left.
-- KEYS: order, served, waiting, since
-- ARGV: namespace, session, room:number, ageing_ms:number, ttl_ms:number
-- ageing_ms: how much sooner a session without room comes than one with all of its room
-- full: goes on
-- returns: 0 when it did not wait before; else how many sessions wait, at least
local own, began = waiting .. namespace, since .. namespace
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local added = redis.call('HSETNX', began, session, now)
-- The score is a moment, not the room alone: else a session that keeps its room would wait behind all that ever come with less.
local from = tonumber(redis.call('HGET', began, session))
redis.call('ZADD', own, from + math.max(-1, math.min(room, 1)) * ageing_ms, session)
if not redis.call('ZSCORE', order, namespace) then
  -- A namespace that comes, or comes back, starts where the others are, but not before what it has already had.
  local first = redis.call('ZRANGE', order, 0, 0, 'WITHSCORES')
  local virtual = tonumber(first[2]) or 0
  redis.call('ZREMRANGEBYSCORE', served, '-inf', virtual)
  redis.call('ZADD', order, math.max(virtual, tonumber(redis.call('ZSCORE', served, namespace)) or 0), namespace)
end
for _, key in ipairs({own, began, order, served}) do
  redis.call('PEXPIRE', key, ttl_ms)
end
if added == 1 then
  return 0
end
-- Of each other namespace that waits, one session does.
return redis.call('ZCARD', own) + redis.call('ZCARD', order) - 1
