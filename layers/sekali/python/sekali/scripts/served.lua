-- Serve a value before anything else is looked at; put in front of `claim` for the claims of loads.
--
-- KEYS     as claim
-- ARGV     as claim
-- Returns  {'served', value, left_ms}, or what claim does
--
-- The race: none, since nothing is written. Row 6 of claim stands behind rows 1 to 5 for the sake
-- of ids that come again. That of a load is made with its token, so those rows see a record of it
-- only where the same claim is repeated after a lost reply, and there they do not matter:
--   - it was Acquired: only its holder can store a value under this key record, which it has not,
--     or somebody came after it, whose token the record then has: rows 4 and 5 are not met
--   - it stored its value already: nobody reads this reply any more, and serving writes nothing
--   - rows 1 and 3: a load has one payload, and fails for good under no outcome
local held = redis.call('GET', KEYS[3])
if held and (tonumber(held:sub(1, 16)) or 0) > tonumber(ARGV[8]) then
  return { 'served', held, redis.call('PTTL', KEYS[3]) }
end

