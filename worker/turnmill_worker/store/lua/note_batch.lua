-- Remember the batch a session's next summary is awaited from: one at a time, none for a session that is gone.
-- KEYS: meta, batch
-- ARGV: epoch, note, lifetime_ms:number
-- returns: 1, or 0 when there is another or the session was forgotten
if redis.call('HGET', meta, 'epoch') ~= epoch then
  return 0
end
return redis.call('SET', batch, note, 'NX', 'PX', lifetime_ms) and 1 or 0
