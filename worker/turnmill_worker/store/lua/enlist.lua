-- List namespaces in a set that all share.
-- KEYS: listing
-- ARGV: names...
-- full: goes on
-- returns: how many were not listed yet
return redis.call('SADD', listing, unpack(names))
