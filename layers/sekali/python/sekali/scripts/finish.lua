-- Settle a job id, fill the key's value and let the lease go (PROTOCOL §2, finish).
--
-- KEYS     record lease value key active
-- ARGV     token fence payload_hash outcome recorded result header record_ttl_ms key_ttl_ms
--          value_ttl_ms cooling_base_ms cooling_cap_ms
--          outcome: D own body's result, S settled with another's, X failed for good, T try again,
--          W given back, U given back before the body started. The value is header .. result.
-- Returns  {'mismatch'}  {'done', result}  {'failed', error or nil where it is the caller's own}
--          {'superseded'}  {'finished', filled}  {'ok', cooling_ms}
--
-- The race: a holder that was frozen past its lease wakes up and stores its result over that of its
-- successor, or frees the successor's lease. Whether it still holds is asked in the step that
-- writes: a late finish settles its own id and touches neither lease, value nor key record.
local token, fence, payload_hash, outcome = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local recorded, result, header = ARGV[5] == '1', ARGV[6], ARGV[7]

local job = redis.call('HMGET', KEYS[1], 'st', 'ph', 'f', 'tk', 'at', 'pre')
local status = job[1]
if status and job[2] ~= payload_hash then -- row 1
  return { 'mismatch' }
end
local key = redis.call('HMGET', KEYS[4], 'f', 'tk', 'st', 'inv')
local lease = redis.call('GET', KEYS[2])
local mine = key[2] == token and tonumber(key[1]) == fence
local live = mine and key[3] == 'running' and (not lease or lease == token)

local function release()
  if live then
    redis.call('HSET', KEYS[4], 'st', 'ended')
    redis.call('PEXPIRE', KEYS[4], ARGV[9])
    redis.call('DEL', KEYS[2])
    redis.call('ZREM', KEYS[5], KEYS[4])
  end
end

local function settle(...)
  redis.call('HSET', KEYS[1], 'f', ARGV[2], 'tk', token, 'ph', payload_hash, ...)
  redis.call('PEXPIRE', KEYS[1], ARGV[8])
  release()
end

if status == 'done' then -- row 2
  release()
  return { 'done', redis.call('HGET', KEYS[1], 'result') }
end
if status == 'failed' and not recorded then -- row 3
  release()
  return { 'failed', redis.call('HGET', KEYS[1], 'error') }
end
if not recorded and (superseded(key[1], key[2], fence, token)
    or superseded(job[3], job[4], fence, token)) then -- row 4
  return { 'superseded' }
end

if outcome == 'D' or outcome == 'S' then -- row 5
  settle('st', 'done', 'result', result)
  if not (live and outcome == 'D' and key[4] == '0') then
    return { 'finished', 0 }
  end
  if header == '' or ARGV[10] == '0' then
    redis.call('DEL', KEYS[3])
    return { 'finished', 0 }
  end
  redis.call('SET', KEYS[3], header .. result, 'PX', ARGV[10])
  return { 'finished', 1 }
end
if outcome == 'X' then -- row 6
  settle('st', 'failed', 'error', result)
  return { 'failed', false }
end
if status and job[4] ~= token then -- row 8
  return { 'superseded' }
end

-- row 7
local attempts = tonumber(job[5] or 0)
if outcome == 'U' and job[6] == 'counted' then
  attempts = attempts - 1
end
settle('st', 'retry', 'at', digits(attempts), 'pre', 'sure')
if not key[1] and lease == token then
  redis.call('DEL', KEYS[2])
end
if outcome ~= 'T' then
  return { 'ok', 0 }
end
redis.call('HSET', KEYS[1], 'error', result)
local cooling = math.min(tonumber(ARGV[12]), tonumber(ARGV[11]) * 2 ^ math.max(attempts - 1, 0))
if live then
  redis.call('SET', KEYS[2], '!', 'PX', digits(cooling))
end
return { 'ok', math.floor(cooling) }
