"""Lua scripts of the queue in Redis. Each is atomic, and may be sent twice.

Keys begin with the prefix of the shard, with its hash tag:

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

from .redis_scripts import APPEND, make_script

_TIME = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function whole(number) return number == math.huge and 'inf' or string.format('%.0f', number) end
"""

_RUN = """
local function this_run()
  local info = redis.pcall('INFO', 'server')
  return type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
end
"""
"""Which start of Redis it is; nothing where its user may not ask."""

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

ADD = make_script(
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
"""Keys: log, and what a long message would be kept under. Arguments: messages to keep, bytes of a message that is kept
in the log itself, beginning of the keys; key, value, version, operation, queue, server, owner; how many of the server
may be open, and of the owner. Returns what came of it, and the position of what was published.
"""

CHANGE = make_script(
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
"""Keys: log, what a long message would be kept under, operation. Arguments: as for `ADD`, up to the beginning of the
keys; key, value, version; the version that was seen, the fence or nothing, microseconds until it is due or nothing,
milliseconds for which it is kept when it has ended or nothing; topic and text, if something is published. Returns
whether it was changed, and the position of what was published last.
"""

TAKE = make_script(
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
"""Keys: operation. Arguments: beginning of the keys, how many at most, microseconds of the lease, microseconds for
which they must have been ready; queues in the order of their turns. Returns the time, and of each job its key, value,
version, fence and queue.

A fence is one more than the one before. Where Redis has been started since, or another one has taken its place, writes
may have been lost, and with them fences that a worker still holds: then it is the time in milliseconds, which is
greater than all of those. `DEL` is the first to write, as it is allowed where Redis is full, and what follows is, then.
"""

RENEW = make_script(
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
"""Keys: operation, of which nothing is kept. Arguments: beginning of the keys; keys, their fences, microseconds.
Returns the keys of those that are lost.
"""

OWNED = make_script(
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
"""Arguments: beginning of the keys, server, `/` and owner; the key after which they begin, or nothing; how many at
most. Returns of each job its key, value, version and fence.
"""

WAITING = make_script(
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
"""Arguments: beginning of the keys, server. Returns of each queue its name, how many are ready and how many not, and
for how many microseconds the first one has been.
"""
