"""Storage in Redis or Valkey, shared by the processes of several machines."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from .._utils.option_checks import nearest
from .._utils.package import missing_package
from .base import NO_FIELDS, StoredValue, bucket_slack, check_put
from .redis_connection import RedisClient, Reply, decoded, encoded, make_idempotent_script, make_script
from .redis_queue import RedisQueue

_ITEMS_BATCH, _ITEMS_SIZE = 256, 262_144  # values, and bytes, after which no more are read at a time
_MAX_TTL = 2**52  # milliseconds of an expiry that Redis can represent


class Redis(RedisQueue):
    """Storage in Redis or Valkey, shared by the processes of several machines.

    For example `Server(storage=Redis("redis://..."), secret_key=...)`. Sessions, states, claims, messages, tasks and
    the values of `ctx.storage` are in one primary of Redis 6.2 or later, or Valkey. They outlive the processes. Other
    processes receive a message at once. Expiry uses the clock of Redis. Needs `pip install "mcpkit[redis]"`.

    The first use opens the connection, and it is opened again when it breaks. If Redis does not answer within 5
    seconds, operations that need it fail and the reason is logged. They work again as soon as Redis does. A forked
    process has its own connections.

    Args:
        url: URL of Redis: `redis://user:password@host:6379/0`, `rediss://` with TLS, or `unix://`. Options are `db` and
            those of redis-py that begin with `ssl_`, such as `?ssl_ca_certs=/etc/ca.pem`. No log and no error contains
            the credentials. Apart from the credentials, all processes must use the same text.
        prefix: Beginning of all keys. Servers with the same prefix receive each other's messages. Use another prefix
            for unrelated servers in the same database.

    Raises:
        TypeError: The URL or the prefix is not a string.
        ValueError: It is not the URL of a Redis, or redis-py cannot read one of its options.
        ImportError: redis-py is not installed.
    """

    is_persistent = True

    def __init__(self, url: str, *, prefix: str = "mcpkit:") -> None:
        if not isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"url must be a string, got {type(url).__name__}")
        if not isinstance(prefix, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"prefix must be a string, got {type(prefix).__name__}")
        self._shown_url = _without_credentials(url)
        if find_spec("redis") is None:
            raise ImportError(missing_package("Redis(...)", "redis-py", "redis"), name="redis")
        _check_options(url)
        super().__init__(RedisClient(url, self._shown_url, encoded(prefix)), encoded(prefix))
        about = f"{self._shown_url} {prefix}".encode("utf-8", "surrogatepass")
        self._store_id = sha256(about).hexdigest()[:32]

    @property
    def store_id(self) -> str:
        """Identifier of this Redis, database and prefix: a digest of the URL without credentials."""
        return self._store_id

    def close(self) -> None:
        """End all subscriptions and close the connections, until the next use. The end of the process does the same."""
        self._client.close()

    def __repr__(self) -> str:
        """Return the URL without credentials."""
        return f"Redis({self._shown_url!r})"

    # PubSub

    async def read(self, key: str) -> Mapping[str, str]:
        """Return the fields of `key`; empty when it is absent or expired."""
        reply = await self._client.command("HGETALL", self._prefix + b"r:" + encoded(key))
        texts = map(decoded, reply)
        return MappingProxyType(dict(zip(texts, texts, strict=True))) if reply else NO_FIELDS

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        """Merge `changes` into the fields of `key`, which expires `ttl` seconds from now."""
        new = [encoded(each) for name, text in changes.items() if text is not None for each in (name, text)]
        removed = [encoded(name) for name, text in changes.items() if text is None]
        keys = (self._client.new_key(b"o:"), self._prefix + b"r:" + encoded(key))
        await self._client.script(_WRITE, keys, _milliseconds(ttl), len(new) // 2, *new, *removed)

    async def erase(self, key: str) -> None:
        """Remove `key`; nothing happens when it is absent."""
        keys = (self._client.new_key(b"o:"), self._prefix + b"r:" + encoded(key))
        await self._client.script(_ERASE, keys)

    async def claim(self, key: str, ttl: float) -> bool:
        """Claim `key` for `ttl` seconds; return True if it was free."""
        owner = os.urandom(16).hex()  # so that the command may be sent twice
        keys = (self._prefix + b"c:" + encoded(key),)
        reply = await self._client.script(_CLAIM, keys, owner, max(1, _milliseconds(ttl)))
        return bool(reply == b"1")

    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        """Take `cost` tokens from the bucket `key`; return 0.0, or the seconds to wait."""
        keys = (self._prefix + b"b:" + encoded(key),)
        args = (repr(every), burst, cost, repr(bucket_slack(every)))
        return float(await self._client.script(_TAKE_TOKENS, keys, *args))

    async def publish(self, topic: str, message: str) -> None:
        """Add `message` to the log for the listeners of `topic` in all processes."""
        connection = self._client.connection()
        await connection.run(connection.log.publish(topic, message))

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with each message to `topic`, in a thread that reads the log; return its unsubscriber."""
        return self._client.connection().log.subscribe(topic, listener, missed)

    async def listening(self) -> None:
        """Wait until the position in the message log is known. From then on, listeners receive messages."""
        connection = self._client.connection()
        if not connection.log.is_up:
            await connection.run(connection.log.listening())

    # Store

    async def get(self, key: str) -> StoredValue | None:
        """Return the value of `key` with its version; None if it is absent or expired."""
        reply = await self._client.command("HMGET", self._prefix + b"v:" + encoded(key), "value", "version")
        return _stored_value(reply)

    async def put(self, key: str, value: bytes, *, version: str | None, ttl: float) -> str | None:
        """Set `key`, if it still has this version; return the new version, or None."""
        check_put(value, ttl)
        new_version = os.urandom(16).hex()
        expected = b"" if version is None else b"=" + encoded(version)
        args = (expected, new_version, value, max(1, _milliseconds(ttl)), encoded(key))
        reply = await self._client.script(_PUT, self._keys_of_value(key), *args)
        return new_version if reply == b"1" else None

    async def delete(self, key: str, *, version: str) -> bool:
        """Remove `key`, if it still has this version; return True if it was removed."""
        args = (b"=" + encoded(version), encoded(key))
        return bool(await self._client.script(_DELETE, self._keys_of_value(key), *args) == b"1")

    def _keys_of_value(self, key: str) -> tuple[bytes, ...]:
        value, names, expiries = b"v:" + encoded(key), b"names", b"expiry"
        return (self._client.new_key(b"o:"), *(self._prefix + each for each in (value, names, expiries)))

    async def items(self, prefix: str) -> AsyncIterator[tuple[str, StoredValue]]:
        """Iterate over the keys that begin with `prefix`, and their values."""
        first, last = b"[" + encoded(prefix), b"[" + encoded(prefix) + b"\xff"  # no text contains this byte
        keys, is_more = (self._prefix + b"names",), True
        while is_more:
            args = (first, last, self._prefix + b"v:", _ITEMS_BATCH, _ITEMS_SIZE)
            found, is_more = await self._client.script(_ITEMS, keys, *args)
            for name, *value in found:
                first = b"(" + name
                if (stored := _stored_value(value)) is not None:
                    yield decoded(name), stored


def _milliseconds(seconds: float) -> int:
    return max(-1, min(_MAX_TTL, round(seconds * 1000)))


def _stored_value(reply: Reply) -> StoredValue | None:
    value, version = reply
    return None if version is None else StoredValue(value, decoded(version))


# Lua scripts: each is atomic, and may be sent twice

# Keys: operation, record. Arguments: milliseconds, number of fields to set, their names and values, names to remove.
_WRITE = make_idempotent_script("""
local last = 2 + 2 * tonumber(ARGV[2])
for i = 3, last, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
for i = last + 1, #ARGV do redis.call('HDEL', KEYS[2], ARGV[i]) end
redis.call('PEXPIRE', KEYS[2], ARGV[1])
local result = '1'
""")

# Keys: operation, record.
_ERASE = make_idempotent_script("local result = tostring(redis.call('DEL', KEYS[2]))\n")

# Keys: claim. Arguments: owner, milliseconds.
_CLAIM = make_script("""
local owner = redis.call('GET', KEYS[1])
if owner then return owner == ARGV[1] and '1' or '0' end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return '1'
""")

# Keys: bucket. Arguments: seconds for one token, capacity, tokens to take, seconds by which a request may be early.
# It does the same as `base.take_tokens`. Sent twice, it takes twice: that is stricter, and needs no record.
_TAKE_TOKENS = make_script("""
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

# Keys: operation, value, all names in their order, all names by expiry. Arguments: "=" and the expected version, or
# nothing; version, value, milliseconds, name. It removes the names of a few expired values, faster than new ones come.
_PUT = make_idempotent_script("""
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

# Keys: as for `_PUT`. Arguments: "=" and the expected version; name.
_DELETE = make_idempotent_script("""
local result = '0'
local version = redis.call('HGET', KEYS[2], 'version')
if version and '=' .. version == ARGV[1] then
  redis.call('DEL', KEYS[2])
  redis.call('ZREM', KEYS[3], ARGV[2])
  redis.call('ZREM', KEYS[4], ARGV[2])
  result = '1'
end
""")

# Keys: all names in their order. Arguments: the first and the last name, as for `ZRANGEBYLEX`; beginning of the keys of
# values, limit of names, bytes after which no more values are read. Returns names with values and versions, and whether
# there may be more.
_ITEMS = make_script("""
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


# The URL


def _without_credentials(url: str) -> str:
    """Return the URL of a Redis without credentials.

    Raises:
        ValueError: It is not the URL of a Redis.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:  # its text has a part of the URL, perhaps of the password
        raise ValueError(
            "the Redis URL cannot be parsed. Percent-encode special characters in the password: / as %2F, "
            "# as %23, ? as %3F, @ as %40"
        ) from None
    if parts.scheme not in {"redis", "rediss", "unix"}:
        raise ValueError("the Redis URL must begin with redis://, rediss:// or unix://")
    if any(name != "db" and not name.startswith("ssl_") for name in options):  # perhaps of the password
        raise ValueError(
            "the Redis URL has an option that mcpkit does not support. Only db and options beginning with "
            "ssl_ are allowed"
        )
    is_socket = parts.scheme == "unix"
    database = options.get("db", "0")
    if not is_socket:
        database = parts.path.strip("/") or database
        if not host:
            raise ValueError("the Redis URL has no host. Write it like redis://127.0.0.1:6379/0")
    if not (database.isascii() and database.isdigit()) or parts.fragment:
        raise ValueError(
            "the Redis URL must end in a database number. Write it like redis://127.0.0.1:6379/0"
        )
    if is_socket:
        return f"unix://{parts.path}?db={int(database)}"
    shown_host = f"[{host}]" if host and ":" in host else host
    return f"{parts.scheme}://{shown_host}:{port or 6379}/{int(database)}"


# Options that redis-py uses together: the client certificate, its key, and the password of the key
_CLIENT_CERTIFICATE = frozenset({"ssl_certfile", "ssl_keyfile", "ssl_password"})

_HINTS = {
    "ssl_cert_reqs": "Write none, optional or required",
    "ssl_check_hostname": "Write true or false",
    "ssl_min_version": "Write the version number: 771 for TLS 1.2, 772 for TLS 1.3",
}
_BOOLEANS = frozenset({"0", "1", "f", "t", "false", "true", "n", "y", "no", "yes"})


def _check_options(url: str) -> None:
    """Check the options of a Redis URL by redis-py, without a connection. Missing files are no error.

    Raises:
        ValueError: redis-py does not know an option, or rejects its value. The message contains no value.
    """
    parts = urlsplit(url)
    options: dict[str, str] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name in options:
            raise ValueError(f"the Redis URL has the option {name} twice. Write it once")
        if not value:
            raise ValueError(
                f"the option {name} in the Redis URL has no value. Write {name}=... or leave it out"
            )
        options[name] = value
    options.pop("db", None)
    if not options:
        return
    if parts.scheme != "rediss":
        raise ValueError(
            f"the option {min(options)} in the Redis URL is for TLS, which {parts.scheme}:// does not use. Leave "
            "it out, or write rediss://"
        )
    redis: Any = import_module("redis.asyncio")
    known = [name for name in signature(redis.SSLConnection).parameters if name.startswith("ssl_")]
    for name in options:
        if name not in known:
            close = nearest(name, known)
            hint = f"Write {close}" if close else f"Supported are {', '.join(known)}"
            raise ValueError(f"redis-py does not know the option {name} in the Redis URL. {hint}")
    groups = [[name] for name in options if name not in _CLIENT_CERTIFICATE]
    groups.append([name for name in options if name in _CLIENT_CERTIFICATE])
    for names in filter(None, groups):
        try:
            if names == ["ssl_check_hostname"] and options[names[0]].casefold() not in _BOOLEANS:
                raise ValueError("redis-py takes any other text for true")
            # Create a TLS context, as redis-py does when it connects.
            query = urlencode({name: options[name] for name in names})
            pool = redis.ConnectionPool.from_url(f"rediss://localhost?{query}")
            pool.connection_class(**pool.connection_kwargs).ssl_context.get()
        except (ssl.SSLError, TypeError, ValueError, import_module("redis.exceptions").RedisError):
            hint = _HINTS.get(names[0], f"Correct or remove {'it' if len(names) == 1 else 'them'}")
            plural = "s" if len(names) > 1 else ""
            raise ValueError(
                f"redis-py rejects the value of the option{plural} {', '.join(names)} in the Redis URL. {hint}"
            ) from None
        except OSError:  # a file that is not on this machine, or not yet
            pass
