"""Names of `mcp.shared`, such as protocol errors, and warnings about differences from the SDKs."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ..protocol.jsonrpc import Json
from ..protocol.objects import Incomplete
from . import types

SUPPORTED_PROTOCOL_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", types.LATEST_PROTOCOL_VERSION]

logger = logging.getLogger("mcpkit.compat")

_said: set[str] = set()


def differs(key: str, text: str) -> None:
    """Log a difference from the SDK for which a server was written, once for each process.

    Args:
        key: Key of the difference.
        text: The difference, and the fix.
    """
    if key not in _said:
        _said.add(key)
        logger.warning("%s", text)


class McpError(Exception):
    """A JSON-RPC error."""

    def __init__(self, error: Incomplete) -> None:
        super().__init__(error.message)
        self.error = error


class UrlElicitationRequiredError(McpError):
    """The user must visit pages before the request can be served."""

    def __init__(self, elicitations: list[Incomplete], message: str | None = None) -> None:
        self.elicitations = elicitations
        said = [each.model_dump(by_alias=True, exclude_none=True) for each in elicitations]
        text = message or f"URL elicitation{'s' if len(said) > 1 else ''} required"
        code = types.URL_ELICITATION_REQUIRED
        super().__init__(types.ErrorData(code=code, message=text, data={"elicitations": said}))

    @classmethod
    def from_error(cls, error: Incomplete) -> UrlElicitationRequiredError:
        """Return the exception for an error with this code. Raises ValueError for another code."""
        if error.code != types.URL_ELICITATION_REQUIRED:
            raise ValueError(f"Expected error code {types.URL_ELICITATION_REQUIRED}, got {error.code}")
        said: list[Json] = Json(error.data or {}).get("elicitations", [])
        return cls([types.ElicitRequestURLParams.model_validate(each) for each in said], error.message)


@dataclass
class SessionMessage:
    """A JSON-RPC message with metadata."""

    message: Incomplete
    metadata: object = None
