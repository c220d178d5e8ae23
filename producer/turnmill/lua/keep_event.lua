-- Keep a framework's event whole beside its turn, and what it changes of the session's values.
-- KEYS: state, events, meta, ids
-- ARGV: event_id, turn_id, event, updated, values...
-- turn_id: of the turn that was pushed for it, '' for none; where the event is there, its new one
-- updated, values: as in keep_session.lua
-- returns: 1; 0 when it was there already; or nothing when there is no such session
if redis.call('HEXISTS', state, 'who') == 0 then
  return nil
end
local at = redis.call('HGET', events, 'id:' .. event_id)
local is_new = not at
if is_new then
  at = redis.call('HINCRBY', events, 'last', 1)
  redis.call('HSET', events, at, event, 'id:' .. event_id, at)
  redis.call('HSET', state, 'updated', updated, unpack(values))
end
local seq = turn_id ~= '' and redis.call('ZSCORE', ids, turn_id)
if seq then
  seq = string.format('%.0f', math.floor(tonumber(seq)))
  -- By its seq, an erased turn takes its event with it.
  redis.call('HSET', events, 'seq:' .. seq, at, 'newest', seq .. ' ' .. event_id)
end
for _, key in ipairs({events, state}) do
  redis.call('PEXPIREAT', key, redis.call('HGET', meta, 'expires_at'))
end
return is_new and 1 or 0
