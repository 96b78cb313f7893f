"""Lua scripts of the Redis storage. Each is atomic, and may be sent twice."""

from __future__ import annotations

from hashlib import sha1
from typing import NamedTuple


class Script(NamedTuple):
    """A Lua script.

    Attributes:
        text: The script.
        digest: SHA-1 digest, by which Redis knows a script that it has run.
    """

    text: str
    digest: str


def make_script(text: str) -> Script:
    """Create a script from its text."""
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def _once(text: str) -> Script:
    """Create a script that has no effect when it is sent again after its reply was lost.

    Its first key is that of the operation. It keeps the result for longer than a command is sent again.
    """
    return make_script(
        "local before = redis.call('GET', KEYS[1])\n"
        "if before then return before end\n"
        f"{text}"
        "redis.call('SET', KEYS[1], result, 'PX', 20000)\n"
        "return result\n"
    )


WRITE = _once("""
local last = 2 + 2 * tonumber(ARGV[2])
for i = 3, last, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
for i = last + 1, #ARGV do redis.call('HDEL', KEYS[2], ARGV[i]) end
redis.call('PEXPIRE', KEYS[2], ARGV[1])
local result = '1'
""")
"""Keys: operation, record. Arguments: milliseconds, fields to set, their names and values, names to remove."""

ERASE = _once("local result = tostring(redis.call('DEL', KEYS[2]))\n")
"""Keys: operation, record."""

CLAIM = make_script("""
local owner = redis.call('GET', KEYS[1])
if owner then return owner == ARGV[1] and '1' or '0' end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return '1'
""")
"""Keys: claim. Arguments: who claims, milliseconds."""

SPEND = make_script("""
local every, burst, cost, slack = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local full_at = tonumber(redis.call('GET', KEYS[1]) or now)
local empty = now + burst * every
local is_other = full_at > empty + slack
full_at = math.max(is_other and empty or full_at, now)
local wait = full_at - now - (burst - cost) * every
if wait <= slack then
  full_at, wait, is_other = full_at + cost * every, 0, true
end
if is_other then
  local left = math.max(1, math.ceil((full_at - now) * 1000))
  redis.call('SET', KEYS[1], string.format('%.6f', full_at), 'PX', string.format('%.0f', left))
end
return string.format('%.6f', wait)
""")
"""Keys: bucket. Arguments: seconds for one, how many it holds, how many are taken, seconds by which one may be early.

It does what `gcra.take_tokens` does, and takes twice where it comes again: that is stricter, and needs no record.
"""

PUT = _once("""
local result = '0'
local version = redis.call('HGET', KEYS[2], 'version')
if (version and '=' .. version or '') == ARGV[1] then
  redis.call('HSET', KEYS[2], 'version', ARGV[2], 'value', ARGV[3])
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
  local time = redis.call('TIME')
  local now = time[1] * 1000
  redis.call('ZADD', KEYS[3], 0, ARGV[5])
  redis.call('ZADD', KEYS[4], string.format('%.0f', now + ARGV[4]), ARGV[5])
  local expired = redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', string.format('%.0f', now - 1000), 'LIMIT', 0, 8)
  for _, name in ipairs(expired) do
    redis.call('ZREM', KEYS[3], name)
    redis.call('ZREM', KEYS[4], name)
  end
  result = '1'
end
""")
"""Keys: operation, value, all names in their order, the same in the order in which they expire. Arguments: "=" and the
version that was seen, or nothing; version, value, milliseconds, name.

Names of what has expired are forgotten here, faster than new ones come.
"""

DELETE = _once("""
local result = '0'
local version = redis.call('HGET', KEYS[2], 'version')
if version and '=' .. version == ARGV[1] then
  redis.call('DEL', KEYS[2])
  redis.call('ZREM', KEYS[3], ARGV[2])
  redis.call('ZREM', KEYS[4], ARGV[2])
  result = '1'
end
""")
"""Keys: as for `PUT`. Arguments: "=" and the version that was seen; name."""

ITEMS = make_script("""
local names = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[4])
local found, size = {}, 0
for i, name in ipairs(names) do
  local held = redis.call('HMGET', ARGV[3] .. name, 'value', 'version')
  found[i] = {name, held[1], held[2]}
  size = size + (held[1] and #held[1] or 0)
  if size >= tonumber(ARGV[5]) then break end
end
return {found, (#found < #names or #names == tonumber(ARGV[4])) and 1 or 0}
""")
"""Keys: all names in their order. Arguments: the first and the last that is meant, as `ZRANGEBYLEX` has them; what the
keys of values begin with, how many names at most, and after how many bytes no more is taken.

Returns names with values and versions, if they have some; and whether there may be more.
"""

APPEND = """
local function append(log, beside, topic, text)
  local began, number
  if redis.call('EXISTS', log) == 1 then
    local info = redis.call('XINFO', 'STREAM', log)
    for i = 1, #info, 2 do
      if info[i] == 'last-generated-id' then began, number = string.match(info[i + 1], '(%d+)-(%d+)') end
    end
  else
    local time = redis.call('TIME')
    began, number = time[1] .. string.format('%06d', time[2]), 0
  end
  local position = began .. '-' .. string.format('%d', number + 1)
  if #text > tonumber(ARGV[2]) then
    redis.call('SET', beside, text, 'PX', 30000)
    redis.call('XADD', log, 'MAXLEN', '~', ARGV[1], position, 't', topic, 'k', beside)
  else
    redis.call('XADD', log, 'MAXLEN', '~', ARGV[1], position, 't', topic, 'm', text)
  end
  return position
end
"""
"""Adds a message to a log, and returns its position; a long one is kept beside it.

It takes from the arguments of the script, the first two, how many messages the log keeps, and the bytes of a message
that is kept in the log itself.

A position is when the log began and how many messages it has had, without a hole: who finds one has missed something.
"""

PUBLISH = _once(
    APPEND
    + """
local result
for i = 3, #KEYS do result = append(KEYS[2], KEYS[i], ARGV[2 * i - 3], ARGV[2 * i - 2]) end
"""
)
"""Keys: operation, log, and one for each message. Arguments: as `APPEND` has them, topics and messages. Returns the
position of the last one.
"""
