"""What a Redis runs for a `Redis`: each script is one step, also where the client sends it twice."""

from __future__ import annotations

from hashlib import sha1
from typing import NamedTuple


class Script(NamedTuple):
    """A script in Lua.

    Attributes:
        text: The script.
        digest: What Redis knows it by, once it has run.
    """

    text: str
    digest: str


def _script(text: str) -> Script:
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def _once(text: str) -> Script:
    """Make a script that changes nothing when it comes again: its reply may have been lost on the way.

    Its first key is that of the operation, where the result is kept for longer than anybody sends it again.
    """
    return _script(
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

CLAIM = _script("""
local owner = redis.call('GET', KEYS[1])
if owner then return owner == ARGV[1] and '1' or '0' end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return '1'
""")
"""Keys: claim. Arguments: who claims, milliseconds."""

PUT = _once("""
local result = '0'
local version = redis.call('HGET', KEYS[2], 'version')
if (version and '=' .. version or '') == ARGV[1] then
  redis.call('HSET', KEYS[2], 'version', ARGV[2], 'value', ARGV[3])
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
  result = '1'
end
""")
"""Keys: operation, value. Arguments: "=" and the version that was seen, or nothing; version, value, milliseconds."""

DELETE = _once("""
local result = '0'
local version = redis.call('HGET', KEYS[2], 'version')
if version and '=' .. version == ARGV[1] then
  redis.call('DEL', KEYS[2])
  result = '1'
end
""")
"""Keys: operation, value. Arguments: "=" and the version that was seen."""

MANY = _script("""
local found = {}
for i, key in ipairs(KEYS) do found[i] = redis.call('HMGET', key, 'value', 'version') end
return found
""")
"""Keys: values. Returns a value and a version for each."""

_LAST = """
local last = false
if redis.call('EXISTS', KEYS[{key}]) == 1 then
  local info = redis.call('XINFO', 'STREAM', KEYS[{key}])
  for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then last = info[i + 1] end
  end
end
"""

LAST = _script(_LAST.format(key=1) + "return last\n")
"""Keys: log. Returns the position of its last message; nothing where there is no log."""

PUBLISH = _once(
    _LAST.format(key=2)
    + """
local began, number
if last then
  began, number = string.match(last, '(%d+)-(%d+)')
else
  local time = redis.call('TIME')
  began, number = time[1] .. string.format('%06d', time[2]), 0
end
for i = 3, #KEYS do
  local topic, message = ARGV[2 * i - 3], ARGV[2 * i - 2]
  number = number + 1
  local position = began .. '-' .. string.format('%d', number)
  if #message > tonumber(ARGV[2]) then
    redis.call('SET', KEYS[i], message, 'PX', 30000)
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[1], position, 't', topic, 'k', KEYS[i])
  else
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[1], position, 't', topic, 'm', message)
  end
end
local result = began .. '-' .. string.format('%d', number)
"""
)
"""Keys: operation, log, and one for each message. Arguments: messages to keep, bytes of a message that is kept in the
log itself, topics and messages. Returns the position of the last one.

A position is when the log began and how many messages it has had, without a hole: who finds one has missed something.
"""
