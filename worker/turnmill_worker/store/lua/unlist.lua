-- Take a session whose keys have expired out of its shard's lists.
-- KEYS: meta, batch, index, backlog, due, parked, unarchived
-- ARGV: session
-- returns: 1 when it had expired, else 0
if redis.call('EXISTS', meta) == 1 then
  return 0
end
-- The batch it awaited is still at the model's endpoint: the session stays listed until a worker has ended it.
if redis.call('EXISTS', batch) == 1 then
  local time = redis.call('TIME')
  redis.call('ZADD', due, 'NX', time[1] * 1000 + math.floor(time[2] / 1000), session)
  return 0
end
redis.call('ZREM', index, session)
redis.call('ZREM', backlog, session)
redis.call('ZREM', due, session)
redis.call('ZREM', parked, session)
redis.call('ZREM', unarchived, session)
return 1
