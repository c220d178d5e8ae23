-- No longer remember a batch, if no other took its place.
-- KEYS: batch
-- ARGV: note
-- returns: 1 when it was dropped, else 0
if redis.call('GET', batch) ~= note then
  return 0
end
return redis.call('DEL', batch)
