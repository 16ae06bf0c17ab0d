-- Find the newest entry of the log, for a reader who has no place in it yet; an empty log gets a
-- first entry then.
--
-- KEYS     log
-- ARGV     log_ttl_ms mark
-- Returns  {id, mark} of the newest
--
-- The race: a reader of an empty log holds no entry to read on from, and cannot tell, once there
-- are entries, which of them are the first. So the log is never left empty by a reader.
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if newest[1] then
  return { newest[1][1], newest[1][2][6] }
end
local id = redis.call('XADD', KEYS[1], '*', 'k', 'o', 'name', '', 'mark', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return { id, ARGV[2] }
