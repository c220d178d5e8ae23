-- The numbers of a session, without its turns.
-- KEYS: meta, log, covered, backlog, due
-- ARGV: session
-- returns: meta as a flat list, bound of uncounted turns, their bytes, log length, covered length, waiting-since, due-at; or nothing for an unknown session
local fields = redis.call('HGETALL', meta)
if #fields == 0 then
  return nil
end
local counted = tonumber(redis.call('HGET', meta, 'counted_seq')) or 0
local pending = 0
local bytes = 0
for _, entry in ipairs(redis.call('XRANGE', log, string.format('%.0f', counted + 1), '+')) do
  pending = pending + tonumber(entry[2][4])
  bytes = bytes + #entry[2][2]
end
return {fields, pending, bytes, redis.call('XLEN', log), redis.call('XLEN', covered),
  redis.call('ZSCORE', backlog, session), redis.call('ZSCORE', due, session)}
