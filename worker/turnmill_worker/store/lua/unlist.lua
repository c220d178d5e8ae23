-- Take a session whose keys have expired out of its shard's lists; one listed for a time that nobody gives is due now.
-- KEYS: meta, batch, index, backlog, due, parked, unarchived
-- ARGV: session, ahead_ms:number
-- full: goes on
-- returns: 1 when it had expired, else 0
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('EXISTS', meta) == 1 then
  -- Redis' clock was set back, or another Redis took over: what was due then would wait for the difference.
  -- A batch may be looked at as rarely as its settings say, and a session be quiet for as long as its policy does.
  local is_long = redis.call('EXISTS', batch) == 1 or redis.call('HEXISTS', meta, 'idle') == 1
  for _, list in ipairs(is_long and {backlog} or {backlog, due}) do
    if (tonumber(redis.call('ZSCORE', list, session)) or 0) > now + ahead_ms then
      redis.call('HDEL', meta, 'postponed_until', 'deferred')
      redis.call('ZADD', list, now, session)
    end
  end
  return 0
end
-- The batch it awaited is still at the model's endpoint: the session stays listed until a worker has ended it.
if redis.call('EXISTS', batch) == 1 then
  redis.call('ZADD', due, 'NX', now, session)
  return 0
end
redis.call('ZREM', index, session)
redis.call('ZREM', backlog, session)
redis.call('ZREM', due, session)
redis.call('ZREM', parked, session)
redis.call('ZREM', unarchived, session)
return 1
