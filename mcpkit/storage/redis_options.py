"""Check of the options `ssl_*` in a Redis URL, by redis-py, before a connection is opened."""

from __future__ import annotations

import ssl
from importlib import import_module
from inspect import signature
from typing import Any, Final
from urllib.parse import unquote_plus

from .._utils.options import nearest

_TOGETHER: Final = frozenset({"ssl_certfile", "ssl_keyfile", "ssl_password"})
"""Options that redis-py uses together: the client certificate, its key, and the password of the key."""

_HINTS: Final = {
    "ssl_cert_reqs": "Write none, optional or required",
    "ssl_check_hostname": "Write true or false",
    "ssl_min_version": "Write the version number: 771 for TLS 1.2, 772 for TLS 1.3",
}
_BOOLEANS: Final = frozenset({"0", "1", "f", "t", "false", "true", "n", "y", "no", "yes"})


def check_options(scheme: str, query: str) -> None:
    """Check the options of a Redis URL, without a connection. Missing files are no error.

    Args:
        scheme: Scheme of the URL.
        query: Query of the URL, with `db`.

    Raises:
        ValueError: redis-py does not know an option, or rejects its value. The message contains no value.
    """
    given: dict[str, str] = {}
    for option in filter(None, query.split("&")):
        name, _, value = option.partition("=")
        name = unquote_plus(name)
        if name in given:
            raise ValueError(f"the Redis URL has the option {name} twice. Write it once")
        if not value:
            raise ValueError(
                f"the option {name} in the Redis URL has no value. Write {name}=... or leave it out"
            )
        given[name] = option
    given.pop("db", None)
    if not given:
        return
    if scheme != "rediss":
        raise ValueError(
            f"the option {min(given)} in the Redis URL is for TLS, which {scheme}:// does not use. Leave "
            "it out, or write rediss://"
        )
    known = [each for each in signature(_asyncio().SSLConnection).parameters if each.startswith("ssl_")]
    for name in given:
        if name not in known:
            close = nearest(name, known)
            hint = f"Write {close}" if close else f"Supported are {', '.join(known)}"
            raise ValueError(f"redis-py does not know the option {name} in the Redis URL. {hint}")
        if name not in _TOGETHER:
            _read([name], given)
    if together := [name for name in given if name in _TOGETHER]:
        _read(together, given)


def _read(names: list[str], given: dict[str, str]) -> None:
    """Create a TLS context from some options, as redis-py does when it connects."""
    [name, *_] = names
    value = given[name].partition("=")[2].casefold()
    try:
        if name == "ssl_check_hostname" and value not in _BOOLEANS:  # redis-py takes any other text for true
            raise ValueError("it is not a boolean")
        pool = _asyncio().ConnectionPool.from_url(
            f"rediss://localhost?{'&'.join(given[each] for each in names)}"
        )
        pool.connection_class(**pool.connection_kwargs).ssl_context.get()
    except (ssl.SSLError, TypeError, ValueError, import_module("redis.exceptions").RedisError):
        hint = _HINTS.get(name, f"Correct or remove {'it' if len(names) == 1 else 'them'}")
        plural = "s" if len(names) > 1 else ""
        raise ValueError(
            f"redis-py rejects the value of the option{plural} {', '.join(names)} in the Redis URL. {hint}"
        ) from None
    except OSError:  # a file that is not on this machine, or not yet
        pass


def _asyncio() -> Any:
    return import_module("redis.asyncio")
