-- Note with which run of Redis a namespace's archive was compared.
-- KEYS: listing
-- ARGV: namespace, run
-- full: goes on
-- returns: whether it is the namespace's first
return redis.call('HSET', listing, namespace, run)
