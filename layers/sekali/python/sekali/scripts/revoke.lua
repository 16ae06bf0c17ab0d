-- Take a lease away from a holder that outlived its bounds (PROTOCOL §2, revocation).
--
-- KEYS     lease key active
-- ARGV     token fence key_ttl_ms
-- Returns  the new fence, or 0 if the key is not held under this token and fence any more
--
-- The race: between the look and the revocation the holder finishes and another one claims. Token and
-- fence are compared in the step that writes, so the newer holder keeps its lease.
local key = redis.call('HMGET', KEYS[2], 'f', 'tk', 'st')
if key[2] ~= ARGV[1] or key[1] ~= ARGV[2] or key[3] ~= 'running' then
  return 0
end
local fence = string.format('%.0f', tonumber(key[1]) + 1)
redis.call('HSET', KEYS[2], 'f', fence, 'tk', 'revoked', 'st', 'ended', 'inv', '1')
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[3], KEYS[2])
return tonumber(fence)
