-- Append invalidations to the log, bounded in length and in age.
--
-- KEYS     log
-- ARGV     most_entries log_ttl_ms, then kind name mark for each entry
-- Returns  the id of the last entry
--
-- The race: an append and the TTL of the log as two commands; a container that dies in between
-- leaves a log that never expires. The mark is random, so that a reader can tell its last entry
-- from another one that got the same id after the log was lost.
local last
for first = 3, #ARGV, 3 do
  last = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*',
    'k', ARGV[first], 'name', ARGV[first + 1], 'mark', ARGV[first + 2])
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
-- Wakes whoever listens; where it is refused, nothing is lost but time.
redis.pcall('PUBLISH', KEYS[1], '')
return last
