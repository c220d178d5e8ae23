-- Note that the namespace is used, and tell the workers, who list it for their sweeps.
-- KEYS: registered
-- ARGV: channel
-- returns: 1 when it was not noted yet, else 0
redis.call('PUBLISH', channel, 1)
-- Written once: a Redis that is full still lets the namespace be told of.
if redis.call('EXISTS', registered) == 1 then
  return 0
end
redis.call('SET', registered, 1)
return 1
