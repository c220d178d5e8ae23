-- Note that a namespace's archive was compared with a run of Redis.
-- KEYS: listing
-- ARGV: namespace, run
-- returns: 1, or 0 when another run is noted by now, which is to be compared with again
if redis.call('HGET', listing, namespace) ~= run then
  return 0
end
return redis.call('HDEL', listing, namespace)
