"""Options of `uvicorn.Config`, as `server.run("http", ...)` takes them."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable
from typing import IO, Any, Literal

from typing_extensions import TypedDict


class UvicornOptions(TypedDict, total=False):
    """Keyword options of `server.run("http", ...)` that are passed to `uvicorn.Config`.

    See uvicorn's documentation, "Settings". With `reload=True`, the program is restarted with the same arguments when
    one of its Python files changes.
    """

    uds: str | None
    fd: int | None
    loop: str
    ws: str
    env_file: str | os.PathLike[str] | None
    log_config: dict[str, Any] | str | os.PathLike[str] | IO[Any] | None
    log_level: str | int | None
    access_log: bool
    use_colors: bool | None
    reload: bool
    reload_dirs: list[str] | str | None
    reload_delay: float
    reload_includes: list[str] | str | None
    reload_excludes: list[str] | str | None
    workers: int | None
    proxy_headers: bool
    server_header: bool
    date_header: bool
    forwarded_allow_ips: list[str] | str | None
    root_path: str
    limit_concurrency: int | None
    limit_max_requests: int | None
    limit_max_requests_jitter: int
    backlog: int
    timeout_keep_alive: int
    timeout_notify: int
    timeout_graceful_shutdown: int | None
    callback_notify: Callable[..., Awaitable[None]] | None
    ssl_keyfile: str | os.PathLike[str] | None
    ssl_certfile: str | os.PathLike[str] | None
    ssl_keyfile_password: str | None
    ssl_version: int
    ssl_cert_reqs: int
    ssl_ca_certs: str | os.PathLike[str] | None
    ssl_ciphers: str | None
    ssl_context_factory: Callable[..., ssl.SSLContext] | None
    headers: list[tuple[str, str]] | None
    lifespan: Literal["auto", "on", "off"]
    h11_max_incomplete_event_size: int | None
