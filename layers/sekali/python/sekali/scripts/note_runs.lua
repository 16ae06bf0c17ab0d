-- Keep how long jobs run, for whoever looks for holders that last too long.
--
-- KEYS     runs
-- ARGV     ttl_ms, then name seconds for each job
-- Returns  nothing
--
-- The race: the hash and its TTL as two commands; a container that dies in between leaves a hash
-- that never expires.
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
