-- Store the answer to a question, for as long as somebody may look for it.
-- KEYS: answer
-- ARGV: body, lifetime_ms:number
-- returns: nothing of use
redis.call('RPUSH', answer, body)
return redis.call('PEXPIRE', answer, lifetime_ms)
