"""The classes of `mcp.types` that all results inherit from."""

from __future__ import annotations

from pydantic import Field

from ...protocol.types import Json
from .basic import Cursor, Model


class Result(Model):
    meta: Json | None = Field(alias="_meta", default=None)


class PaginatedResult(Result):
    nextCursor: Cursor | None = None
