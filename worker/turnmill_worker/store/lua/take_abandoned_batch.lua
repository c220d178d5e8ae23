-- Take one of the batches whose sessions were forgotten while their summaries were awaited.
-- KEYS: abandoned
-- ARGV: none
-- returns: its note, or nothing when there is none
return redis.call('LPOP', abandoned)
