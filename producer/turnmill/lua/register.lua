-- Note that the namespace is used, and tell the workers, who list it for their sweeps; say what its quotas leave.
-- KEYS: registered, quota, bucket
-- ARGV: channel, pushes:number
-- pushes: made by this client since it registered last
-- returns: 1 when it was not noted yet, else 0; what is over its quota, or nothing; ms until pushes are taken again, or 0; 1 when pushes are counted, else 0
redis.call('PUBLISH', channel, 1)
local noted = 0
-- Written once: a Redis that is full still lets the namespace be told of.
if redis.call('EXISTS', registered) == 0 then
  redis.call('SET', registered, 1)
  noted = 1
end
local told = redis.call('HMGET', quota, 'over', 'rate')
local rate = tonumber(told[2])
if not rate then
  return {noted, told[1], 0, 0}
end
-- A bucket that holds what may be pushed in 20 seconds: clients tell of their pushes in lumps of 10.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local seen = redis.call('HMGET', bucket, 'tokens', 'at')
local passed = math.max(now - (tonumber(seen[2]) or 0), 0)
local tokens = math.min((tonumber(seen[1]) or 0) + passed / 1000 * rate, 20 * rate) - pushes
-- A Redis that is full does not take them; then nothing is stored either.
redis.pcall('HSET', bucket, 'tokens', string.format('%.3f', tokens), 'at', string.format('%.0f', now))
redis.pcall('PEXPIRE', bucket, math.ceil(60000 + math.max(-tokens, 0) / rate * 1000))
return {noted, told[1], tokens < 0 and math.ceil(-tokens / rate * 1000) or 0, 1}
