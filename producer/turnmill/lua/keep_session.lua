-- Begin to keep a framework's session beside the turns, unless it is there.
-- KEYS: state, meta
-- ARGV: who, updated, values...
-- who: whose it is, JSON
-- updated: seconds, by the framework's clock
-- values: of each '=' with its name, and its JSON
-- returns: 1, or 0 when there is one
if redis.call('HSETNX', state, 'who', who) == 0 then
  return 0
end
redis.call('HSET', state, 'updated', updated, unpack(values))
redis.call('PEXPIREAT', state, redis.call('HGET', meta, 'expires_at'))
return 1
