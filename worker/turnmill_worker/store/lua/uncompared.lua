-- Note that the archives of these namespaces are to be compared with this run of Redis.
-- KEYS: listing
-- ARGV: run, names...
-- names: one that is empty notes the run itself
-- full: goes on
-- returns: nothing
for _, name in ipairs(names) do
  redis.call('HSET', listing, name, run)
end
return nil
