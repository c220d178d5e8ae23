-- The numbers of a session, without its turns.
-- KEYS: meta, log, context, covered, backlog, due, lease
-- ARGV: session
-- returns: meta as a flat list, context, bound of uncounted turns, their bytes, log length, uncounted messages, covered length, waiting-since, due-at, 1 when a worker compacts it, the time now in ms; or nothing for an unknown session
local fields = redis.call('HGETALL', meta)
if #fields == 0 then
  return nil
end
local counted = tonumber(redis.call('HGET', meta, 'counted_seq')) or 0
local pending = 0
local bytes = 0
local messages = 0
for _, entry in ipairs(redis.call('XRANGE', log, string.format('%.0f', counted + 1), '+')) do
  pending = pending + tonumber(entry[2][4])
  bytes = bytes + #entry[2][2]
  -- Every message is written with its role first; inside a JSON string the quotes are escaped.
  local _, found = string.gsub(entry[2][2], '{"role":', '%0')
  messages = messages + found
end
local time = redis.call('TIME')
return {fields, redis.call('GET', context), pending, bytes, redis.call('XLEN', log), messages, redis.call('XLEN', covered),
  redis.call('ZSCORE', backlog, session), redis.call('ZSCORE', due, session), redis.call('EXISTS', lease),
  time[1] * 1000 + math.floor(time[2] / 1000)}
