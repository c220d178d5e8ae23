-- The sessions of a shard that wait to be counted, the longest first.
-- KEYS: backlog
-- ARGV: most:number
-- returns: their names
local time = redis.call('TIME')
return redis.call('ZRANGEBYSCORE', backlog, '-inf', time[1] * 1000 + math.floor(time[2] / 1000), 'LIMIT', 0, most)
