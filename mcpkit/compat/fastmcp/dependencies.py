"""Dependencies of functions: parameters of type `Context` or with `Depends`, and functions for the current request."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.objects import Incomplete
from ..lowlevel.client_session import http_request
from .exceptions import FastMCPError

if TYPE_CHECKING:
    from starlette.requests import Request

    from ..mcp_shared import AccessToken

_NOT_PASSED_ON = frozenset(
    [
        "host",
        "content-length",
        "content-type",
        "connection",
        "transfer-encoding",
        "upgrade",
        "te",
        "keep-alive",
        "expect",
        "accept",
        "authorization",
        "cookie",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "mcp-session-id",
    ]
)

current: ContextVar[Incomplete] = ContextVar("fastmcp_context")
"""The context of the current request."""


class Dependency:
    """The default of a parameter that gets the return value of a function, or the object of a context manager."""

    def __init__(self, function: Callable[..., Incomplete]) -> None:
        self.function = function

    async def open(self, stack: AsyncExitStack, opened: dict[object, object]) -> Incomplete:
        """Return the value of the dependency, computed once for each request. The stack closes context managers."""
        if self.function not in opened:
            wanted = inspect.signature(self.function).parameters
            given = {
                name: each.default for name, each in wanted.items() if isinstance(each.default, Dependency)
            }
            found: Incomplete = self.function(
                **{name: await each.open(stack, opened) for name, each in given.items()}
            )
            if inspect.isawaitable(found):
                found = await found
            if hasattr(found, "__aenter__"):
                found = await stack.enter_async_context(found)
            elif hasattr(found, "__enter__"):
                found = stack.enter_context(found)
            opened[self.function] = found
        return opened[self.function]


async def opened(
    wanted: dict[str, Dependency], stack: AsyncExitStack, function_name: str
) -> dict[str, Incomplete]:
    """Return the value of each parameter. The stack closes context managers."""
    found: dict[str, Incomplete] = {}
    so_far: dict[object, object] = {}
    for name, each in wanted.items():
        try:
            found[name] = await each.open(stack, so_far)
        except FastMCPError:
            raise
        except Exception as error:
            raise RuntimeError(f"Failed to resolve dependency {name!r} for {function_name}") from error
    return found


def Depends(dependency: Callable[..., Incomplete], *, use_cache: bool = True) -> Incomplete:  # noqa: N802 - as fastmcp has it
    """Declare a parameter that gets the return value of a function, or the object of a context manager."""
    return Dependency(dependency)


def get_context() -> Incomplete:
    """Return the context of the current request.

    Raises:
        RuntimeError: No request is being served.
    """
    if (found := current.get(None)) is None:
        raise RuntimeError("No active context found.")
    return found


def get_server() -> Incomplete:
    """Return the server of the current request."""
    return get_context().fastmcp


def get_http_request() -> Request:
    """Return the current HTTP request.

    Raises:
        RuntimeError: There is none.
    """
    found: Incomplete = http_request.get()
    if found is None:
        raise RuntimeError("No active HTTP request found.")
    request: Request = found
    return request


def get_http_headers(include_all: bool = False, include: set[str] | None = None) -> dict[str, str]:
    """Return the headers of the current HTTP request that may be forwarded; an empty dict without a request."""
    found: Incomplete = http_request.get()
    kept = {each.lower() for each in include or ()}
    headers = {} if found is None else dict(found.headers)
    return {
        name: each
        for name, each in headers.items()
        if include_all or name in kept or name not in _NOT_PASSED_ON
    }


def get_access_token() -> AccessToken | None:
    """Return the access token of the current request; None if it has none."""
    from ..mcp_shared import get_access_token as found

    return found()


CurrentContext: Callable[[], Incomplete] = partial(Dependency, get_context)
CurrentFastMCP: Callable[[], Incomplete] = partial(Dependency, get_server)
CurrentRequest: Callable[[], Incomplete] = partial(Dependency, get_http_request)
CurrentHeaders: Callable[[], Incomplete] = partial(Dependency, get_http_headers)
CurrentAccessToken: Callable[[], Incomplete] = partial(Dependency, get_access_token)
