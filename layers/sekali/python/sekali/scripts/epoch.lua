-- Read a tag's mark, or set the one that is offered; keep it alive either way.
--
-- KEYS     epoch
-- ARGV     mark epoch_ttl_ms
-- Returns  the current mark
--
-- The race: two readers find no mark and each sets its own, so that one carries a mark which is no
-- longer current. Here the second one gets the first one's. One step sets and reads (Valkey 7).
local mark = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'GET', 'PX', ARGV[2])
if not mark then
  return ARGV[1]
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return mark
