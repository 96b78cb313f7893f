"""Options of HTTP requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from .authorizer import GivesAuthorizers

if TYPE_CHECKING:
    import ssl

    import httpx2
    from starlette.types import ASGIApp

    Auth: TypeAlias = (
        httpx2.Auth | tuple[str, str] | Callable[[httpx2.Request], httpx2.Request] | GivesAuthorizers
    )
    """What may stand in `auth=`."""


class HttpOptions(TypedDict, total=False):
    """Options of HTTP requests; see `HttpClient`."""

    headers: Mapping[str, str] | None
    token: str | Callable[[], str | Awaitable[str]] | None
    auth: Auth | None
    verify: bool | str | Path | ssl.SSLContext
    cert: str | Path | tuple[str | Path, ...] | None
    proxy: str | None
    trust_env: bool
    http_client: httpx2.AsyncClient | None
    app: ASGIApp | None
    connect_timeout: float
    max_answer: int
