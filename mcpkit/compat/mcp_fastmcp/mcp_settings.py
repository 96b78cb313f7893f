"""Settings of the `FastMCP` of `mcp` 1.x, and its logging."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, TypeAlias

from pydantic import BaseModel, field_validator

from .. import mcp_shared
from ..mcp_shared import AuthSettings, TransportSecuritySettings

LogLevel: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

_LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "localhost", "::1": "[::1]"}


class Settings(BaseModel, validate_default=True, defer_build=True):
    """The settings of a FastMCP, which may be assigned until they are used."""

    debug: bool = False
    log_level: LogLevel = "INFO"
    host: str = "127.0.0.1"
    port: int = 8000
    mount_path: str = "/"
    sse_path: str = "/sse"
    message_path: str = "/messages/"
    streamable_http_path: str = "/mcp"
    json_response: bool = False
    stateless_http: bool = False
    max_request_body_size: int = mcp_shared.DEFAULT_MAX_REQUEST_BODY_SIZE
    session_idle_timeout: float | None = mcp_shared.DEFAULT_SESSION_IDLE_TIMEOUT
    max_sessions: int | None = mcp_shared.DEFAULT_MAX_SESSIONS
    warn_on_duplicate_resources: bool = True
    warn_on_duplicate_tools: bool = True
    warn_on_duplicate_prompts: bool = True
    dependencies: list[str] = []
    lifespan: Callable[..., AbstractAsyncContextManager[object]] | None = None
    auth: AuthSettings | None = None
    transport_security: TransportSecuritySettings | None = None

    @field_validator("auth", "transport_security", mode="before")
    @classmethod
    def _convert(cls, value: object) -> object:
        """Accept models of an installed `mcp`."""
        return value.model_dump() if isinstance(value, BaseModel) else value

    def model_post_init(self, _: object, /) -> None:
        """Accept only loopback hosts if the server listens on a loopback address, against DNS rebinding."""
        if self.transport_security is None and self.host in _LOOPBACK:
            hosts = [f"{each}:*" for each in _LOOPBACK.values()]
            allowed = {"allowed_hosts": hosts, "allowed_origins": [f"http://{each}" for each in hosts]}
            self.transport_security = TransportSecuritySettings.model_construct(None, **allowed)


def get_logger(name: str) -> logging.Logger:
    """Return a logger."""
    return logging.getLogger(name)


def configure_logging(level: LogLevel = "INFO") -> None:
    """Log to standard error, unless the process has configured its logging."""
    logging.basicConfig(level=level, format="%(message)s")
