-- Extend a lease, or revive one that ended while nobody superseded it (PROTOCOL §2, renew).
--
-- KEYS     record lease value key active
-- ARGV     token fence payload_hash lease_ms record_ttl_ms key_ttl_ms started owner id caller_ms
-- Returns  {'lost', done | failed | held | superseded | ended, owner}
--          {'renewed', invalidated, lease_ms, started}
--
-- The race: a renewal in flight meets a lease that its own finish has released, or that another
-- holder has taken meanwhile. Token and fence are compared in the step that writes, so neither is
-- revived.
local token, fence, lease_ms = ARGV[1], tonumber(ARGV[2]), ARGV[4]
local started = ARGV[7] == '1'

local job = redis.call('HMGET', KEYS[1], 'st', 'f', 'tk', 'at', 'pre')
local key = redis.call('HMGET', KEYS[4], 'f', 'tk', 'st', 'owner', 'inv')
local owner = key[4] or ''
if job[1] == 'done' or job[1] == 'failed' then -- row 1
  return { 'lost', job[1], owner }
end
local lease = redis.call('GET', KEYS[2])
if lease and lease ~= token then -- row 2
  return { 'lost', 'held', owner }
end
if superseded(key[1], key[2], fence, token)
  or superseded(job[2], job[3], fence, token) then -- row 3
  return { 'lost', 'superseded', owner }
end
-- The key's record may have been evicted since; that of the job tells of a claim given back as well.
local ended = key[2] == token and key[3] == 'ended'
local given_back = job[3] == token and job[1] == 'retry'
if ended or given_back then -- row 4
  return { 'lost', 'ended', owner }
end

-- row 5. A record that is not newer than this claim, nor its own, is absent or older.
local now = hold(token, lease_ms, ARGV[6], ARGV[10])
local invalidated = key[5]
if not key[1] or tonumber(key[1]) < fence then
  invalidated = '1'
  redis.call('HSET', KEYS[4], 'f', ARGV[2], 'tk', token, 'owner', ARGV[8], 'id', ARGV[9],
    'st', 'running', 'inv', '1', 'started', digits(now), 'first', '000')
end
redis.call('PEXPIRE', KEYS[4], ARGV[6])
if job[3] ~= token then
  redis.call('HSET', KEYS[1], 'st', 'running', 'f', ARGV[2], 'tk', token, 'ph', ARGV[3],
    'at', digits(tonumber(job[4] or 0) + (started and 1 or 0)), 'pre', started and 'sure' or 'lazy',
    'su', '1', 'owner', ARGV[8], 'started', digits(now))
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
elseif started then
  redis.call('HSET', KEYS[1], 'pre', 'sure',
    'at', digits(tonumber(job[4]) + (job[5] == 'lazy' and 1 or 0)))
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
return { 'renewed', tonumber(invalidated), tonumber(lease_ms), started and 1 or 0 }
