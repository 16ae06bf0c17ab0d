-- Drop a key's value and refuse the fill of the load that is under way (PROTOCOL §2, invalidate).
--
-- KEYS     value key
-- ARGV     key_ttl_ms
-- Returns  1 if the key has a record, else 0
--
-- The race: a load began before the change and stores what it read after the value was dropped. The
-- mark in the key record is a tombstone: only a new claim, whose load begins later, clears it.
-- Without a record nobody may fill, so none is made.
redis.call('DEL', KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 0 then
  return 0
end
redis.call('HSET', KEYS[2], 'inv', '1')
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return 1
