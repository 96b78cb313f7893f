"""What a low-level server says of itself at the beginning."""

from __future__ import annotations

from pydantic import BaseModel

from ..types import Icon, ServerCapabilities


class InitializationOptions(BaseModel, defer_build=True):
    """What clients are told at the beginning."""

    server_name: str
    server_version: str
    capabilities: ServerCapabilities
    instructions: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None
