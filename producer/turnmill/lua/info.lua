-- The numbers of a session, without its turns.
-- KEYS: meta, log, covered, compactions, backlog, due
-- ARGV: session
-- returns: meta as a flat list, log length, covered length, compactions, waiting-since, due-at; or nothing for an unknown session
local fields = redis.call('HGETALL', meta)
if #fields == 0 then
  return nil
end
return {fields, redis.call('XLEN', log), redis.call('XLEN', covered), redis.call('XLEN', compactions),
  redis.call('ZSCORE', backlog, session), redis.call('ZSCORE', due, session)}
