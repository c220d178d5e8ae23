-- Take the lease of the sweep, or hold one's own for longer.
-- KEYS: sweep
-- ARGV: owner, hold_ms:number, ahead_ms:number, is_new:number
-- is_new: 1 to take it where nobody has it
-- full: goes on
-- returns: 1 when it is the owner's now, else 0
-- No worker holds it for so long: Redis' clock was set back since, and that worker may be gone.
if redis.call('PTTL', sweep) > hold_ms + ahead_ms then
  redis.call('DEL', sweep)
end
local has = redis.call('GET', sweep)
if has and has ~= owner or not has and is_new == 0 then
  return 0
end
redis.call('SET', sweep, owner, 'PX', hold_ms)
return 1
