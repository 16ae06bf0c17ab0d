-- The words of PROTOCOL §1 that claim, renew and finish share; put in front of each of them.

-- Numbers are doubles below 2^53; a server's own formatting of them would round.
local function digits(number)
  return string.format('%.0f', number)
end

-- The server's clock, read from a key that ends in `left_ms`: TIME is refused inside scripts on
-- Serverless. Where PEXPIRETIME is refused as well, the caller's clock stands in.
local function clock_ms(key, left_ms, caller_ms)
  local ends = redis.pcall('PEXPIRETIME', key)
  if type(ends) == 'number' then
    return ends - left_ms
  end
  return tonumber(caller_ms)
end

-- Somebody else holds a newer claim: a greater fence, or the same one with another token. An absent
-- or an older record supersedes nobody; without a token there is no claim to supersede.
local function superseded(record_fence, record_token, fence, token)
  if token == '' or not record_fence then
    return false
  end
  local other = tonumber(record_fence)
  return other > fence or (other == fence and record_token ~= token)
end

-- Take or extend the lease, and list it by its end. Returns the server's clock.
local function hold(token, lease_ms, key_ttl_ms, caller_ms)
  redis.call('SET', KEYS[2], token, 'PX', lease_ms)
  local now = clock_ms(KEYS[2], lease_ms, caller_ms)
  redis.call('ZADD', KEYS[5], digits(now + lease_ms), KEYS[4])
  redis.call('PEXPIRE', KEYS[5], key_ttl_ms)
  return now
end

