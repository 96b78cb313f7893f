"""Queue of jobs in Redis.

Keys begin with the prefix of the storage and a hash tag:

- `j:` and the key of a job: a hash with the job. An ended job expires.
- `l:` and the name of a queue: its open jobs, by the time at which they may be taken.
- `s:` and the name of a server: its queues with open jobs.
- `n:` and the name of a server: number of its open jobs.
- `w:`, a server, `/` and an owner: the jobs of the owner, by creation time.
- `x:` and the same: the ended ones among them, by expiry.
- `o:` and an operation: its result, kept for longer than a command is sent again.

Times are microseconds of Redis' clock. Expired jobs are removed from `w:` and `x:` together, a few with each script, so
the difference of the sizes is the number of open jobs of an owner.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import inf

from .base import QueueStats, check_value
from .jobs_and_heartbeats import Added, Job, LeasedJobs, Message, RoundRobin, server_of
from .redis_connection import (
    APPEND,
    LONG,
    MAX_MESSAGES,
    Argument,
    RedisClient,
    Reply,
    Script,
    decoded,
    encoded,
    make_script,
)


class RedisQueue:
    """The queue of a `Redis` storage.

    Args:
        client: Connections to Redis.
        prefix: Beginning of all keys.
    """

    def __init__(self, client: RedisClient, prefix: bytes) -> None:
        self._client = client
        self._prefix = prefix
        self._jobs = prefix + b"q{0}:"  # the hash tag of the one shard; others would be chosen by the owner
        self._round_robin = RoundRobin()

    async def add(
        self, key: str, value: bytes, *, queue: str, owner: str, max_open: int, max_open_per_owner: int
    ) -> Added:
        """Add a job that may be taken at once, and notify waiting workers."""
        check_value("job", value)
        version, operation = os.urandom(16).hex(), os.urandom(16).hex()
        result = await self._run_and_publish(
            *(_ADD, (), encoded(key), value, version, operation, encoded(queue), encoded(server_of(queue))),
            *(encoded(owner), max_open, max_open_per_owner),
        )
        added: Added = result.decode()
        return added

    async def get_job(self, key: str) -> Job | None:
        """Return a job; None if there is none, or it has expired."""
        job = self._jobs + b"j:" + encoded(key)
        value, version, fence = await self._client.command("HMGET", job, "value", "version", "fence")
        return None if version is None else Job(key, value, decoded(version), int(fence))

    async def change(
        self,
        key: str,
        value: bytes,
        *,
        version: str,
        fence: int | None = None,
        due: float | None = None,
        ttl: float | None = None,
        message: Message | None = None,
    ) -> str | None:
        """Replace the value of a job, if version and fencing token still match; return the new version, or None."""
        check_value("job", value)
        new_version = os.urandom(16).hex()
        result = await self._run_and_publish(
            _CHANGE,
            (self._client.new_key(b"o:"),),
            *(encoded(key), value, new_version, encoded(version)),
            "" if fence is None else fence,
            "" if due is None else _microseconds(due),
            "" if ttl is None else max(0, round(ttl * 1000)),
            *map(encoded, message or ()),
        )
        return new_version if result == b"1" else None

    async def _run_and_publish(self, script: Script, keys: Sequence[Argument], *args: Argument) -> Reply:
        """Run a script that may publish messages, and return its result."""
        log = self._client.connection().log
        keys = (log.key, self._client.new_key(b"m:"), *keys)
        result, position = await self._client.script(script, keys, MAX_MESSAGES, LONG, self._jobs, *args)
        log.add_published(position)
        return result

    async def take(
        self, queues: Sequence[str], *, limit: int, lease: float, ready_for: float = 0.0
    ) -> LeasedJobs:
        """Lease jobs that are ready."""
        order = map(encoded, self._round_robin.order(queues))
        args = (self._jobs, limit, _microseconds(lease), _microseconds(ready_for), *order)
        now, found = await self._client.script(_TAKE, (self._client.new_key(b"o:"),), *args)
        for *_, queue in found:
            self._round_robin.served(decoded(queue))
        return LeasedJobs(int(now) / 1e6, [_job(each[:4]) for each in found])

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        """Extend leases; return the keys of lost ones."""
        if not leases:
            return set()
        args: list[Argument] = [self._jobs]
        for key, (fence, seconds) in leases.items():
            args += (encoded(key), fence, _microseconds(seconds))
        return set(map(decoded, await self._client.script(_RENEW, (self._client.new_key(b"o:"),), *args)))

    async def list_jobs(self, owner: str, *, server: str, after: str, limit: int) -> list[Job]:
        """Return the jobs of an owner, the newest first."""
        args = (self._jobs, encoded(f"{server}/{owner}"), encoded(after), limit)
        return [_job(each) for each in await self._client.script(_LIST_JOBS, (), *args)]

    async def list_queues(self, server: str) -> list[QueueStats]:
        """Return statistics of the queues of a server."""
        found = await self._client.script(_LIST_QUEUES, (), self._jobs, encoded(server))
        return [
            QueueStats(decoded(queue), ready, held, int(waited) / 1e6) for queue, ready, held, waited in found
        ]


def _job(reply: Reply) -> Job:
    key, value, version, fence = reply
    return Job(decoded(key), value, decoded(version), int(fence))


def _microseconds(seconds: float) -> Argument:
    return "inf" if seconds == inf else round(seconds * 1e6)


# Lua scripts: each is atomic, and may be sent twice

_TIME = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function whole(number) return number == math.huge and 'inf' or string.format('%.0f', number) end
"""

# The id of this run of Redis; empty if its user may not run INFO.
_RUN = """
local function this_run()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
end
"""

_FORGET = """
local function forget(base, scope, most)
  local all, over = base .. 'w:' .. scope, base .. 'x:' .. scope
  local expired = redis.call('ZRANGEBYSCORE', over, '-inf', whole(now), 'LIMIT', 0, most)
  for _, key in ipairs(expired) do
    redis.call('ZREM', all, key)
    redis.call('ZREM', over, key)
  end
end
"""

# Keys: log, long message. Arguments: two for `APPEND`, beginning of the keys; key, value, version, operation, queue,
# server, owner; limits of open jobs of the server and the owner. Returns the result, and the position of the message.
_ADD = make_script(
    _TIME
    + _RUN
    + _FORGET
    + APPEND
    + """
local base, key, value, version, operation = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local queue, server, owner = ARGV[8], ARGV[9], ARGV[10]
local job, line, scope = base .. 'j:' .. key, base .. 'l:' .. queue, server .. '/' .. owner
local count, all, over = base .. 'n:' .. server, base .. 'w:' .. scope, base .. 'x:' .. scope
if redis.call('EXISTS', job) == 1 then
  return {redis.call('HGET', job, 'operation') == operation and 'added' or 'exists', ''}
end
if tonumber(redis.call('GET', count) or 0) >= tonumber(ARGV[11]) then return {'full', ''} end
if owner ~= '' and redis.call('ZCARD', all) - redis.call('ZCARD', over) >= tonumber(ARGV[12]) then
  return {'owner_full', ''}
end
redis.call(
  'HSET', job, 'value', value, 'version', version, 'fence', '0', 'leased', '0', 'run', this_run(),
  'operation', operation, 'queue', queue, 'server', server, 'owner', owner
)
redis.call('ZADD', line, whole(now), key)
redis.call('SADD', base .. 's:' .. server, queue)
redis.call('INCR', count)
redis.call('ZREM', over, key)
redis.call('ZADD', all, whole(now), key)
redis.call('PERSIST', all)
redis.call('PERSIST', over)
forget(base, scope, 8)
return {'added', append(KEYS[1], KEYS[2], queue, '')}
"""
)

# Keys: log, long message, operation. Arguments: two for `APPEND`, beginning of the keys; key, value, version; the
# expected version, the fence or nothing, microseconds until it is due or nothing, milliseconds until an ended job
# expires or nothing; topic and text of a message, if any. Returns whether it was changed, and the position of the last
# message.
_CHANGE = make_script(
    _TIME
    + _FORGET
    + APPEND
    + """
local base, key, value, version = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local seen, fence, due, keep = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local job = base .. 'j:' .. key
if redis.call('EXISTS', KEYS[3]) == 1 then return {'1', ''} end
local held = redis.call('HMGET', job, 'version', 'fence', 'queue', 'server', 'owner', 'ended')
if held[1] ~= seen or held[6] or (fence ~= '' and fence ~= held[2]) then return {'0', ''} end
local queue, server, scope = held[3], held[4], held[4] .. '/' .. held[5]
local line, all, over = base .. 'l:' .. queue, base .. 'w:' .. scope, base .. 'x:' .. scope
redis.call('HSET', job, 'value', value, 'version', version)
redis.call('SET', KEYS[3], '1', 'PX', 20000)
local position = ''
if #ARGV > 10 then position = append(KEYS[1], KEYS[2], ARGV[11], ARGV[12]) end
if keep ~= '' then
  redis.call('HSET', job, 'leased', '0', 'ended', '1')
  redis.call('ZREM', line, key)
  if redis.call('EXISTS', line) == 0 then redis.call('SREM', base .. 's:' .. server, queue) end
  if redis.call('DECR', base .. 'n:' .. server) <= 0 then redis.call('DEL', base .. 'n:' .. server) end
  redis.call('ZADD', over, whole(now + keep * 1000), key)
  redis.call('PEXPIRE', job, keep)
  forget(base, scope, 8)
  if redis.call('ZCARD', all) == redis.call('ZCARD', over) then
    local last = redis.call('ZRANGE', over, -1, -1, 'WITHSCORES')
    local left = #last > 0 and whole(math.ceil((last[2] - now) / 1000) + 60000) or '0'
    redis.call('PEXPIRE', all, left)
    redis.call('PEXPIRE', over, left)
  end
elseif due ~= '' then
  local wait = due == 'inf' and math.huge or tonumber(due)
  redis.call('HSET', job, 'leased', '0')
  redis.call('ZADD', line, whole(now + wait), key)
  if wait <= 0 then position = append(KEYS[1], KEYS[2], queue, '') end
end
return {'1', position}
"""
)

# Keys: operation. Arguments: beginning of the keys, limit, microseconds of the lease, microseconds for which jobs must
# have been ready; queues in the order of their turns. Returns the time, and of each job its key, value, version, fence
# and queue.
#
# A fence is greater than the one before by one. If Redis was restarted or replaced since, writes may have been lost,
# and with them fences that a worker still has: then it is the time in milliseconds, which is greater than all of those.
# `DEL` is the first write, because a full Redis allows it, and then also the writes that follow.
_TAKE = make_script(
    _TIME
    + _RUN
    + """
local base, most, lease, late = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local taken = {}
local before = redis.call('LRANGE', KEYS[1], 0, -1)
for i = 1, #before, 2 do
  local job = redis.call('HMGET', base .. 'j:' .. before[i], 'value', 'version', 'fence', 'queue')
  if job[3] == before[i + 1] then taken[#taken + 1] = {before[i], job[1], job[2], job[3], job[4]} end
end
if #before > 0 then return {whole(now), taken} end
local ready, longest = {}, 0
for i = 5, #ARGV do
  local line = redis.call('ZRANGEBYSCORE', base .. 'l:' .. ARGV[i], '-inf', whole(now - late), 'LIMIT', 0, most)
  ready[#ready + 1] = {ARGV[i], line}
  longest = math.max(longest, #line)
end
if longest == 0 then return {whole(now), taken} end
local run = this_run()
redis.call('DEL', KEYS[1])
for place = 1, longest do
  for _, each in ipairs(ready) do
    local queue, key = each[1], each[2][place]
    if key and #taken < most then
      local job = redis.call('HMGET', base .. 'j:' .. key, 'value', 'version', 'fence', 'run')
      if job[3] then
        local fence = job[3] + 1
        if job[4] ~= run then fence = math.max(fence, math.floor(now / 1000)) end
        fence = whole(fence)
        redis.call('HSET', base .. 'j:' .. key, 'fence', fence, 'leased', '1', 'run', run)
        redis.call('ZADD', base .. 'l:' .. queue, whole(now + lease), key)
        redis.call('RPUSH', KEYS[1], key, fence)
        taken[#taken + 1] = {key, job[1], job[2], fence, queue}
      else
        redis.call('ZREM', base .. 'l:' .. queue, key)
      end
    end
  end
end
redis.call('PEXPIRE', KEYS[1], 20000)
return {whole(now), taken}
"""
)

# Keys: operation, without a result. Arguments: beginning of the keys; for each lease its key, fence and microseconds.
# Returns the keys of lost leases.
_RENEW = make_script(
    _TIME
    + """
local lost = {}
redis.call('DEL', KEYS[1])
for i = 2, #ARGV, 3 do
  local job = redis.call('HMGET', ARGV[1] .. 'j:' .. ARGV[i], 'fence', 'leased', 'queue')
  if job[1] == ARGV[i + 1] and job[2] == '1' then
    redis.call('ZADD', ARGV[1] .. 'l:' .. job[3], 'XX', whole(now + ARGV[i + 2]), ARGV[i])
  else
    lost[#lost + 1] = ARGV[i]
  end
end
return lost
"""
)

# Arguments: beginning of the keys, server, `/` and owner; the key after which the page begins, or nothing; limit.
# Returns of each job its key, value, version and fence.
_LIST_JOBS = make_script(
    _TIME
    + _FORGET
    + """
local base, scope, after, most = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local all, found, from = base .. 'w:' .. scope, {}, 0
forget(base, scope, 1000)
if after ~= '' then
  local rank = redis.call('ZREVRANK', all, after)
  if not rank or redis.call('EXISTS', base .. 'j:' .. after) == 0 then return found end
  from = rank + 1
end
while #found < most do
  local keys = redis.call('ZREVRANGE', all, from, from + most - 1)
  if #keys == 0 then return found end
  from = from + #keys
  for _, key in ipairs(keys) do
    local job = redis.call('HMGET', base .. 'j:' .. key, 'value', 'version', 'fence', 'server', 'owner')
    local is_theirs = job[3] and job[4] .. '/' .. job[5] == scope
    if is_theirs and #found < most then found[#found + 1] = {key, job[1], job[2], job[3]} end
  end
end
return found
"""
)

# Arguments: beginning of the keys, server. Returns of each queue its name, the number of ready and of other jobs, and
# the microseconds for which the oldest ready job has waited.
_LIST_QUEUES = make_script(
    _TIME
    + """
local base, found = ARGV[1], {}
for i, queue in ipairs(redis.call('SMEMBERS', base .. 's:' .. ARGV[2])) do
  local line = base .. 'l:' .. queue
  local first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
  local ready = redis.call('ZCOUNT', line, '-inf', whole(now))
  local waited = ready > 0 and now - first[2] or 0
  found[i] = {queue, ready, redis.call('ZCARD', line) - ready, whole(waited)}
end
return found
"""
)
