-- Remember the context as it is now, under a name.
-- KEYS: meta, log, context, named
-- ARGV: session, id, message, keep_checkpoints:number
-- returns: the id, "" when checkpoints are turned off; or nothing for an unknown session
local seen = redis.call('HMGET', meta, 'epoch', 'last_seq', 'version', 'keep_checkpoints', 'expires_at')
if not seen[1] then
  return nil
end
local keep = tonumber(seen[4]) or keep_checkpoints
if keep == 0 then
  return ''
end
local newest = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
local body = redis.call('GET', context) or ''
local version = seen[3] or '0'
local seq = newest and string.match(newest[1], '^%d+')
if not seq then
  seq = redis.call('HGET', meta, 'watermark') or '0'
end
if id == '' then
  id = 'turn-' .. seq .. '-v' .. version .. '-' .. redis.call('HINCRBY', meta, 'checkpoints', 1)
end
-- A name used again moves: it means the newest state it was given to.
for _, entry in ipairs(redis.call('XRANGE', named, '-', '+')) do
  if entry[2][2] == id then
    redis.call('XDEL', named, entry[1])
  end
end
redis.call('XADD', named, 'MAXLEN', keep, '*', 'id', id, 'seq', seq, 'version', version,
  'message', message, 'context', body)
redis.call('PEXPIREAT', named, seen[5])
return id
