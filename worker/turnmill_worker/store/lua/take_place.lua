-- Take a place among the calls under way at an endpoint, or keep it longer; those of workers that died are free in time.
-- KEYS: places
-- ARGV: holder, most:number, lease_ms:number
-- full: goes on
-- returns: 1, or 0 when all are taken
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', places, '-inf', now)
if not redis.call('ZSCORE', places, holder) and redis.call('ZCARD', places) >= most then
  return 0
end
redis.call('ZADD', places, now + lease_ms, holder)
redis.call('PEXPIRE', places, math.max(redis.call('PTTL', places), lease_ms))
return 1
