-- Read on in the log from an entry that the reader knows, that entry included.
--
-- KEYS     log
-- ARGV     id most_entries
-- Returns  nil where there is no entry from that id on, else {id, mark, entries, id, mark}: the
--          first entry, the rest as one JSON list of kind, name, mark, kind, …, and the newest
--
-- One text for ten thousand entries, because a client takes ten times as long to read them as a
-- list of lists as it takes to read everything else.
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
