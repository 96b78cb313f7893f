"""What servers import of `mcp.shared`, errors of the protocol above all; and how what is otherwise here is said."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ..protocol.types import Incomplete, Json
from . import types

SUPPORTED_PROTOCOL_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", types.LATEST_PROTOCOL_VERSION]

logger = logging.getLogger("mcpkit.compat")

_said: set[str] = set()


def differs(key: str, text: str) -> None:
    """Warn that something is otherwise here than in the SDK that a server was written for, once for each process.

    Args:
        key: What tells this difference from others.
        text: What is otherwise, and what to do about it.
    """
    if key not in _said:
        _said.add(key)
        logger.warning("%s", text)


class McpError(Exception):
    """An error of JSON-RPC."""

    def __init__(self, error: Incomplete) -> None:
        super().__init__(error.message)
        self.error = error


class UrlElicitationRequiredError(McpError):
    """Says that the user has to visit pages first."""

    def __init__(self, elicitations: list[Incomplete], message: str | None = None) -> None:
        self.elicitations = elicitations
        said = [each.model_dump(by_alias=True, exclude_none=True) for each in elicitations]
        text = message or f"URL elicitation{'s' if len(said) > 1 else ''} required"
        code = types.URL_ELICITATION_REQUIRED
        super().__init__(types.ErrorData(code=code, message=text, data={"elicitations": said}))

    @classmethod
    def from_error(cls, error: Incomplete) -> UrlElicitationRequiredError:
        """Return the exception for an error of that code; for another one this is a ValueError."""
        if error.code != types.URL_ELICITATION_REQUIRED:
            raise ValueError(f"Expected error code {types.URL_ELICITATION_REQUIRED}, got {error.code}")
        said: list[Json] = Json(error.data or {}).get("elicitations", [])
        return cls([types.ElicitRequestURLParams.model_validate(each) for each in said], error.message)


@dataclass
class SessionMessage:
    """A message in its envelope."""

    message: Incomplete
    metadata: object = None
