"""Classes of `mcp.types` for tools."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from ...protocol.jsonrpc import Json
from .basic import Icon, Model


class BaseMetadata(BaseModel, defer_build=True):
    """Base class for entities with name and optional title fields."""

    name: str
    title: str | None = None


class ToolAnnotations(Model):
    """Additional properties describing a Tool to clients.

    NOTE: all properties in ToolAnnotations are **hints**.
    They are not guaranteed to provide a faithful description of
    tool behavior (including descriptive properties like `title`).

    Clients should never make tool use decisions based on ToolAnnotations
    received from untrusted servers.
    """

    title: str | None = None
    readOnlyHint: bool | None = None
    destructiveHint: bool | None = None
    idempotentHint: bool | None = None
    openWorldHint: bool | None = None


class ToolExecution(Model):
    """Execution-related properties for a tool."""

    taskSupport: Literal["forbidden", "optional", "required"] | None = None


class Tool(BaseMetadata, Model):
    """Definition for a tool the client can call."""

    description: str | None = None
    inputSchema: Json
    outputSchema: Json | None = None
    icons: list[Icon] | None = None
    annotations: ToolAnnotations | None = None
    meta: Json | None = Field(alias="_meta", default=None)
    execution: ToolExecution | None = None
