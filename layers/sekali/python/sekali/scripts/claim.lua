-- Claim the right to compute a key for one job id, or say why not (PROTOCOL §2, claim).
--
-- KEYS     record lease value key active born
-- ARGV     token payload_hash lease_ms record_ttl_ms key_ttl_ms born_ttl_ms max_attempts refuse
--          rearm want_stale owner id caller_ms
-- Returns  {'mismatch'}  {'done', result}  {'failed', error, fence}  {'served', value, left_ms}
--          {'busy', remaining_ms, owner, age_ms, cooling, stale value or nil}
--          {'quarantined', attempts, error, owner, fence}
--          {'acquired', fence, attempt, suspect, first, born_ms}; `first` is three digits and a
--          name: was it fresh, a takeover, is there an older value; the owner that was abandoned
--
-- The race: between a read that finds no value and no holder and the write of a lease, another
-- container does the same. Here the look and the lease are one step, so one of them gets Acquired
-- and the other one Busy. A repeat after a lost reply carries the same token and gets the same
-- answer.
local token, payload_hash, lease_ms = ARGV[1], ARGV[2], ARGV[3]
local refuse, rearm = tonumber(ARGV[8]), tonumber(ARGV[9])

local job = redis.call('HMGET', KEYS[1], 'st', 'ph', 'f', 'tk', 'at', 'pre', 'su', 'owner')
local status, job_fence = job[1], tonumber(job[3] or 0)
if status then
  if job[2] ~= payload_hash then -- row 1
    return { 'mismatch' }
  end
  if status == 'done' then -- row 2
    return { 'done', redis.call('HGET', KEYS[1], 'result') }
  end
  if status == 'failed' and job_fence > rearm then -- row 3
    return { 'failed', redis.call('HGET', KEYS[1], 'error'), job_fence }
  end
end

local key = redis.call('HMGET', KEYS[4], 'f', 'tk', 'st', 'owner', 'started', 'first')
local lease = redis.call('GET', KEYS[2])

local function busy(stale)
  local left, age = 0, 0
  if lease then
    left = redis.call('PTTL', KEYS[2])
    local now = clock_ms(KEYS[2], left, ARGV[13])
    age = math.max(now - (tonumber(key[5]) or now), 0)
  end
  return { 'busy', left, key[4] or '', age, lease == '!' and 1 or 0, stale }
end

local function acquired(fence, attempt, pre, first, born)
  return { 'acquired', tonumber(fence), attempt, pre == 'lazy' and 1 or 0, first, tonumber(born) }
end

if key[2] == token then
  local untouched = not lease or lease == token
  if key[3] == 'running' and job[4] == token and status == 'running' and untouched then -- row 4
    local now = hold(token, lease_ms, ARGV[5], ARGV[13])
    local attempt = tonumber(job[5]) + (job[6] == 'lazy' and 1 or 0)
    return acquired(key[1], attempt, job[6], key[6], redis.call('GET', KEYS[6]) or now)
  end
  return busy(false) -- row 5
end

local value = redis.call('GET', KEYS[3])
if value and (tonumber(value:sub(1, 16)) or 0) > refuse then -- row 6
  return { 'served', value, redis.call('PTTL', KEYS[3]) }
end
if lease then -- row 7
  return busy(ARGV[10] == '1' and value)
end

local attempts, suspect = tonumber(job[5] or 0), job[7] == '1'
if job_fence <= rearm then -- redriven: a fresh job once
  attempts, suspect = 0, false
elseif status == 'running' then
  suspect = true
  if job[6] == 'counted' then
    attempts = attempts - 1
  end
end
if attempts >= tonumber(ARGV[7]) then -- row 8
  return { 'quarantined', attempts, redis.call('HGET', KEYS[1], 'error') or '', job[8], job_fence }
end

-- row 9
local now = hold(token, lease_ms, ARGV[5], ARGV[13])
local fence = digits(math.max(tonumber(key[1] or 0) + 1, job_fence + 1, now * 1000))
local pre = suspect and 'lazy' or 'counted'
local first = (status and 0 or 1) .. (status == 'running' and 1 or 0) .. (value and 1 or 0)
  .. (key[3] == 'running' and key[4] or '')
redis.call('HSET', KEYS[1], 'st', 'running', 'f', fence, 'tk', token, 'ph', payload_hash, 'pre',
pre,
  'at', digits(suspect and attempts or attempts + 1), 'su', suspect and '1' or '0',
  'owner', ARGV[11], 'started', digits(now))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('HSET', KEYS[4], 'f', fence, 'tk', token, 'owner', ARGV[11], 'id', ARGV[12],
  'st', 'running', 'inv', '0', 'started', digits(now), 'first', first)
redis.call('PEXPIRE', KEYS[4], ARGV[5])
local born = redis.call('GETEX', KEYS[6], 'PX', ARGV[6])
if not born then
  born = digits(now)
  redis.call('SET', KEYS[6], born, 'PX', ARGV[6])
end
return acquired(fence, attempts + 1, pre, first, born)
