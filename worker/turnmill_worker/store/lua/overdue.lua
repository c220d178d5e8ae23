-- The sessions of a shard that wait to be counted, the longest first; if there is none, pushes hint again.
-- KEYS: backlog, hinted
-- ARGV: most:number
-- returns: their names
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local names = redis.call('ZRANGEBYSCORE', backlog, '-inf', now, 'LIMIT', 0, most)
if not names[1] then
  redis.call('DEL', hinted)
end
return names
