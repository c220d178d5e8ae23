-- Drop the note of a batch, if no other took its place; what the batch has cost for nothing counts for the next commit.
-- KEYS: meta, batch
-- ARGV: note, model, calls:number, prompt_tokens:number, completion_tokens:number, cost_usd
-- cost_usd: nothing when it is not known; calls: 0 when there is nothing to count
-- returns: 1 when it was dropped, else 0
if redis.call('GET', batch) ~= note then
  return 0
end
redis.call('DEL', batch)
if calls > 0 and redis.call('EXISTS', meta) == 1 then
  local function added(spent)
    spent = spent or {calls = 0, prompt_tokens = 0, completion_tokens = 0, cost_usd = 0}
    spent.calls = spent.calls + calls
    spent.prompt_tokens = spent.prompt_tokens + prompt_tokens
    spent.completion_tokens = spent.completion_tokens + completion_tokens
    if cost_usd == '' or spent.cost_usd == cjson.null then
      spent.cost_usd = cjson.null
    else
      spent.cost_usd = spent.cost_usd + tonumber(cost_usd)
    end
    return spent
  end
  local before = redis.call('HGET', meta, 'spent')
  local spent = added(before and cjson.decode(before))
  -- What an older version noted, it did not note by model.
  spent.by_model = spent.by_model or before and {[''] = cjson.decode(before)} or {}
  spent.by_model[model] = added(spent.by_model[model])
  redis.call('HSET', meta, 'spent', cjson.encode(spent))
end
return 1
