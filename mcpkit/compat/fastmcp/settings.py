"""What may be set for a server, and the logging that it begins with."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, TypeAlias, get_args

from pydantic import BaseModel, ValidationInfo, field_validator

from ...protocol.types import Json
from ..lowlevel import serving

LogLevel: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]

_LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "localhost", "::1": "[::1]"}


class Settings(BaseModel, validate_default=True, defer_build=True):
    """The options of a FastMCP, which may be assigned until they are used."""

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
    max_request_body_size: int = serving.DEFAULT_MAX_REQUEST_BODY_SIZE
    session_idle_timeout: float | None = serving.DEFAULT_SESSION_IDLE_TIMEOUT
    max_sessions: int | None = serving.DEFAULT_MAX_SESSIONS
    warn_on_duplicate_resources: bool = True
    warn_on_duplicate_tools: bool = True
    warn_on_duplicate_prompts: bool = True
    dependencies: list[str] = []
    lifespan: Callable[..., AbstractAsyncContextManager[object]] | None = None
    auth: Any = None  # AuthSettings, which most servers do without
    transport_security: serving.TransportSecuritySettings | None = None

    @field_validator("auth", "transport_security", mode="before")
    @classmethod
    def _read(cls, value: object, info: ValidationInfo) -> object:
        said = value.model_dump() if isinstance(value, BaseModel) else value
        if said is None or info.field_name != "auth":
            return said
        from ..auth import AuthSettings

        return AuthSettings.model_validate(said)

    def model_post_init(self, _: object, /) -> None:
        """Have this machine answered alone if no other can reach it, as web pages could (DNS rebinding)."""
        if self.transport_security is None and self.host in _LOOPBACK:
            hosts = [f"{each}:*" for each in _LOOPBACK.values()]
            allowed: Json = {"allowed_hosts": hosts, "allowed_origins": [f"http://{each}" for each in hosts]}
            self.transport_security = serving.TransportSecuritySettings.model_construct(**allowed)


def settings_of(given: Json) -> Settings:
    """Return settings; what has the type of its default is taken without a look at its schema, which takes a while."""
    fields = Settings.model_fields
    is_certain = all(
        value in get_args(LogLevel) if name == "log_level" else type(value) is type(fields[name].default)
        for name, value in given.items()
        if name != "lifespan" or not callable(value)
    )
    return Settings.model_construct(**given) if is_certain else Settings(**given)


def get_logger(name: str) -> logging.Logger:
    """Return a logger."""
    return logging.getLogger(name)


def configure_logging(level: LogLevel = "INFO") -> None:
    """Have what is logged written to standard error, unless the process has set up its logging."""
    logging.basicConfig(level=level, format="%(message)s")
