"""Defaults of servers written for `mcp` over HTTP, and the settings of allowed hosts."""

from __future__ import annotations

from pydantic import BaseModel

DEFAULT_MAX_REQUEST_BODY_SIZE = 4 * 1024 * 1024
DEFAULT_SESSION_IDLE_TIMEOUT = 30 * 60
DEFAULT_MAX_SESSIONS = 10_000


class TransportSecuritySettings(BaseModel, defer_build=True):
    """The hosts and origins that are accepted."""

    enable_dns_rebinding_protection: bool = True
    allowed_hosts: list[str] = []
    allowed_origins: list[str] = []
