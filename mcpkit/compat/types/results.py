"""Base classes of the results in `mcp.types`."""

from __future__ import annotations

from pydantic import Field

from ...protocol.jsonrpc import Json
from .basic import Cursor, Model


class Result(Model):
    meta: Json | None = Field(alias="_meta", default=None)


class PaginatedResult(Result):
    nextCursor: Cursor | None = None
