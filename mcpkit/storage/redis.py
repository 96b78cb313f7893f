"""Storage in Redis or Valkey, shared by the processes of several machines."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from hashlib import sha256
from importlib.util import find_spec
from types import MappingProxyType
from urllib.parse import parse_qsl, urlsplit
from weakref import finalize

from .._utils.package import install_command
from .base import StoredValue, bucket_slack, check_put
from .redis_link import Link
from .redis_options import check_options
from .redis_pubsub import Log, decoded, encoded
from .redis_queue import RedisQueue
from .redis_scripts import CLAIM, DELETE, ERASE, ITEMS, PUT, SPEND, WRITE

_NOTHING: Mapping[str, str] = MappingProxyType({})

_AT_A_TIME = 256
_MUCH = 262_144
"""Values, and bytes, after which no more are fetched at a time."""

_LONGEST = 2**52
"""Maximum milliseconds of an expiry that Redis can represent."""


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
        self._shown = _without_credentials(url)
        if find_spec("redis") is None:
            raise ImportError(f"Redis(...) needs redis-py. Run: {install_command('redis')}", name="redis")
        parts = urlsplit(url)
        check_options(parts.scheme, parts.query)
        super().__init__(encoded(prefix))
        self._url = url
        self._home = sha256(f"{self._shown} {prefix}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._open: list[tuple[Link, Log]] = []
        self._finalize = finalize(self, _close, self._open)

    def _opened(self) -> tuple[Link, Log]:
        """Return the connections of this process, and its message log."""
        if self._process != os.getpid():  # a forked child, which has none
            _LEFT_BEHIND.append(self._open)
            self._finalize.detach()
            self._begin()
        try:
            return self._open[0]
        except IndexError:
            with self._lock:
                if not self._open:
                    link = Link(self._url, self._shown)
                    self._open.append((link, Log(link, self._prefix)))
                return self._open[0]

    @property
    def store_id(self) -> str:
        """Identifier of this Redis, database and prefix: a digest of the URL without credentials."""
        return self._home

    def close(self) -> None:
        """End all subscriptions and close the connections, until the next use. The end of the process does the same."""
        with self._lock:
            _close(self._open)

    def __repr__(self) -> str:
        """Return the URL without credentials."""
        return f"Redis({self._shown!r})"

    def _key(self, kind: bytes, key: str) -> bytes:
        return self._prefix + kind + encoded(key)

    def _keys_of_value(self, key: str) -> tuple[bytes, ...]:
        """Return the keys that a script changes with a value: operation, value, and the two name indexes."""
        return (self._operation(), self._key(b"v:", key), self._prefix + b"names", self._prefix + b"expiry")

    # PubSub

    async def read(self, key: str) -> Mapping[str, str]:
        """Return the fields of `key`; empty when it is absent or expired."""
        link, _ = self._opened()
        found = await link.run(link.command("HGETALL", self._key(b"r:", key)))
        if not isinstance(found, list) or not found:
            return _NOTHING
        texts = [decoded(each) for each in found if isinstance(each, bytes)]
        return MappingProxyType(dict(zip(texts[::2], texts[1::2], strict=True)))

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        """Merge `changes` into the fields of `key`, which expires `ttl` seconds from now."""
        link, _ = self._opened()
        is_set = [(encoded(name), encoded(text)) for name, text in changes.items() if text is not None]
        removed = [encoded(name) for name, text in changes.items() if text is None]
        keys = (self._operation(), self._key(b"r:", key))
        texts = (text for pair in is_set for text in pair)
        await link.run(link.script(WRITE, keys, _milliseconds(ttl), len(is_set), *texts, *removed))

    async def erase(self, key: str) -> None:
        """Remove `key`; nothing happens when it is absent."""
        link, _ = self._opened()
        await link.run(link.script(ERASE, (self._operation(), self._key(b"r:", key))))

    async def claim(self, key: str, ttl: float) -> bool:
        """Claim `key` for `ttl` seconds; return True if it was free."""
        link, _ = self._opened()
        owner = os.urandom(16).hex()
        return (
            await link.run(link.script(CLAIM, (self._key(b"c:", key),), owner, max(1, _milliseconds(ttl))))
            == b"1"
        )

    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        """Take `cost` tokens from the bucket `key`; return 0.0, or the seconds to wait."""
        link, _ = self._opened()
        args = (repr(every), burst, cost, repr(bucket_slack(every)))
        wait = await link.run(link.script(SPEND, (self._key(b"b:", key),), *args))
        assert isinstance(wait, bytes), "SPEND must return a number"
        return float(wait)

    async def publish(self, topic: str, message: str) -> None:
        """Add `message` to the log for the listeners of `topic` in all processes."""
        link, log = self._opened()
        await link.run(log.publish(topic, message))

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with each message to `topic`, in a thread that reads the log; return its unsubscriber."""
        return self._opened()[1].subscribe(topic, listener, missed)

    async def listening(self) -> None:
        """Wait until the position in the message log is known. From then on, listeners receive messages."""
        link, log = self._opened()
        if not log.is_up:
            await link.run(log.listening())

    # Store

    async def get(self, key: str) -> StoredValue | None:
        """Return the value of `key` with its version; None if it is absent or expired."""
        link, _ = self._opened()
        return _stored(await link.run(link.command("HMGET", self._key(b"v:", key), "value", "version")))

    async def put(self, key: str, value: bytes, *, version: str | None, ttl: float) -> str | None:
        """Set `key`, if it still has this version; return the new version, or None."""
        check_put(value, ttl)
        link, _ = self._opened()
        new = os.urandom(16).hex()
        args = (_seen(version), new, value, max(1, _milliseconds(ttl)), encoded(key))
        done = await link.run(link.script(PUT, self._keys_of_value(key), *args))
        return new if done == b"1" else None

    async def delete(self, key: str, *, version: str) -> bool:
        """Remove `key`, if it still has this version; return True if it was removed."""
        link, _ = self._opened()
        done = await link.run(link.script(DELETE, self._keys_of_value(key), _seen(version), encoded(key)))
        return done == b"1"

    async def items(self, prefix: str) -> AsyncIterator[tuple[str, StoredValue]]:
        """Iterate over the keys that begin with `prefix`, and their values."""
        link, _ = self._opened()
        first, last = b"[" + encoded(prefix), b"[" + encoded(prefix) + b"\xff"  # which no text has
        is_more = True
        while is_more:
            args = (first, last, self._prefix + b"v:", _AT_A_TIME, _MUCH)
            match await link.run(link.script(ITEMS, (self._prefix + b"names",), *args)):
                case [list(found), int(more)]:
                    is_more = bool(more)
                case _:
                    raise AssertionError(
                        "the Lua script ITEMS must return a list of records and whether there are "
                        "more. This is a bug of mcpkit, please report it"
                    )
            for each in found:
                match each:
                    case [bytes(name), *held]:
                        first = b"(" + name
                        if (stored := _stored(held)) is not None:
                            yield decoded(name), stored
                    case _:
                        raise AssertionError(
                            "the Lua script ITEMS must return a name and a record. This is a bug of "
                            "mcpkit, please report it"
                        )


_LEFT_BEHIND: list[object] = []
"""Connections of the parent process that a forked child must not touch."""


def _close(opened: list[tuple[Link, Log]]) -> None:
    while opened:
        opened.pop()[0].close()


def _milliseconds(seconds: float) -> int:
    return max(-1, min(_LONGEST, round(seconds * 1000)))


def _seen(version: str | None) -> bytes:
    return b"" if version is None else b"=" + encoded(version)


def _stored(found: object) -> StoredValue | None:
    match found:
        case [bytes(value), bytes(version)]:
            return StoredValue(value, decoded(version))
        case _:
            return None


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
    place = parts.path if parts.scheme == "unix" else parts.path.strip("/")
    database = options.get("db", "0")
    if parts.scheme != "unix":
        database = place or database
        if not host:
            raise ValueError("the Redis URL has no host. Write it like redis://127.0.0.1:6379/0")
    if not (database.isascii() and database.isdigit()) or parts.fragment:
        raise ValueError(
            "the Redis URL must end in a database number. Write it like redis://127.0.0.1:6379/0"
        )
    if parts.scheme == "unix":
        return f"unix://{place}?db={int(database)}"
    shown = f"[{host}]" if host and ":" in host else host
    return f"{parts.scheme}://{shown}:{port or 6379}/{int(database)}"
