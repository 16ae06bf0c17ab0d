-- Read on in the log from an entry that the reader knows, that entry included; or find the newest
-- one, for a reader that has none yet. An empty log gets a first entry then.
--
-- KEYS     log
-- ARGV     id most_entries, or where the reader has none: '' log_ttl_ms mark
-- Returns  {id, mark, entries, id, mark}: the first entry, the rest as one JSON list of kind, name,
--          mark, kind, …, and the newest; nil where there is no entry from that id on;
--          for a reader without an entry {id, mark} of the newest
--
-- The race: a reader of an empty log holds no entry to read on from, and cannot tell, once there
-- are entries, which of them are the first. So the log is never left empty by a reader.
--
-- One text for ten thousand entries, because a client takes ten times as long to read them as a
-- list of lists as it takes to read everything else.
if ARGV[1] == '' then
  local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
  if newest[1] then
    return { newest[1][1], newest[1][2][6] }
  end
  local id = redis.call('XADD', KEYS[1], '*', 'k', 'o', 'name', '', 'mark', ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return { id, ARGV[3] }
end
local found = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
if not found[1] then
  return nil
end
local rest = {}
for at = 2, #found do
  local fields = found[at][2]
  rest[#rest + 1] = fields[2]
  rest[#rest + 1] = fields[4]
  rest[#rest + 1] = fields[6]
end
local newest = found[#found]
return { found[1][1], found[1][2][6], cjson.encode(rest), newest[1], newest[2][6] }
