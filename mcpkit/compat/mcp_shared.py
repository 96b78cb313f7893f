"""Names of `mcp.shared`, such as protocol errors, and the settings and tokens that protect servers over HTTP."""

from __future__ import annotations

import logging
import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import AnyHttpUrl, BaseModel, model_validator
from typing_extensions import Self

from ..protocol.jsonrpc import Json
from ..protocol.objects import Incomplete
from . import types

SUPPORTED_PROTOCOL_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", types.LATEST_PROTOCOL_VERSION]


class McpError(Exception):
    """A JSON-RPC error."""

    def __init__(self, error: Incomplete) -> None:
        super().__init__(error.message)
        self.error = error


class UrlElicitationRequiredError(McpError):
    """The user must visit pages before the request can be served."""

    def __init__(self, elicitations: list[Incomplete], message: str | None = None) -> None:
        self.elicitations = elicitations
        data = {"elicitations": [each.model_dump(by_alias=True, exclude_none=True) for each in elicitations]}
        text = message or f"URL elicitation{'s' if len(elicitations) > 1 else ''} required"
        super().__init__(types.ErrorData(code=types.URL_ELICITATION_REQUIRED, message=text, data=data))

    @classmethod
    def from_error(cls, error: Incomplete) -> UrlElicitationRequiredError:
        """Return the exception for an error with this code. Raises ValueError for another code."""
        if error.code != types.URL_ELICITATION_REQUIRED:
            raise ValueError(f"Expected error code {types.URL_ELICITATION_REQUIRED}, got {error.code}")
        elicitations: list[Json] = Json(error.data or {}).get("elicitations", [])
        params = [types.ElicitRequestURLParams.model_validate(each) for each in elicitations]
        return cls(params, error.message)


@dataclass
class SessionMessage:
    """A JSON-RPC message with metadata."""

    message: Incomplete
    metadata: object = None


# Tool names that some clients do not accept: server/tools, "Tool Names"

SEP_986_URL: Final = "https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names"
_NAME_WARNINGS: Final = {
    r"^\Z": "cannot be empty",
    r" ": "contains spaces, which may cause parsing issues",
    r",": "contains commas, which may cause parsing issues",
    r"^-|-\Z": "starts or ends with a dash, which may cause parsing issues in some contexts",
    r"^\.|\.\Z": "starts or ends with a dot, which may cause parsing issues in some contexts",
}
"""Warnings by the pattern that a name matches."""

_logger = logging.getLogger("mcp.shared.tool_name_validation")


def validate_and_warn_tool_name(name: str) -> bool:
    """Return True if the name has 1 to 128 letters, digits, `_`, `-` and `.`; log problems that clients may have."""
    if len(name) > 128:
        warnings = [f"Tool name exceeds maximum length of 128 characters (current: {len(name)})"]
    else:
        warnings = [
            f"Tool name {text}" for pattern, text in _NAME_WARNINGS.items() if re.search(pattern, name)
        ]
        if invalid := dict.fromkeys(re.findall(r"[^A-Za-z0-9._-]", name)):
            warnings.append(f"Tool name contains invalid characters: {', '.join(map(repr, invalid))}")
            warnings.append("Allowed characters are: A-Z, a-z, 0-9, underscore (_), dash (-), and dot (.)")
    if warnings:
        _logger.warning('Tool name validation warning for "%s":', name)
        for warning in warnings:
            _logger.warning("  - %s", warning)
        _logger.warning("Tool registration will proceed, but this may cause compatibility issues.")
        _logger.warning("Consider updating the tool name to conform to the MCP tool naming standard.")
        _logger.warning("See SEP-986 (%s) for more details.", SEP_986_URL)
    return re.fullmatch(r"[A-Za-z0-9._-]{1,128}", name) is not None


# Protection of servers over HTTP: allowed hosts, limits, and access tokens

DEFAULT_MAX_REQUEST_BODY_SIZE = 4 * 1024 * 1024
DEFAULT_SESSION_IDLE_TIMEOUT = 30 * 60
DEFAULT_MAX_SESSIONS = 10_000


class TransportSecuritySettings(BaseModel, defer_build=True):
    """The hosts and origins that are accepted."""

    enable_dns_rebinding_protection: bool = True
    allowed_hosts: list[str] = []
    allowed_origins: list[str] = []


class AuthSettings(BaseModel, defer_build=True):
    """The authorization server, the resource URL, and the scopes that tokens need."""

    issuer_url: AnyHttpUrl
    service_documentation_url: AnyHttpUrl | None = None
    client_registration_options: object = None
    revocation_options: object = None
    required_scopes: list[str] | None = None
    resource_server_url: AnyHttpUrl | None
    validate_token_resource: bool | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.validate_token_resource and self.resource_server_url is None:
            raise ValueError("validate_token_resource requires resource_server_url")
        return self


class AccessToken(BaseModel, defer_build=True):
    """A verified access token."""

    token: str
    client_id: str
    scopes: list[str]
    expires_at: int | None = None
    resource: str | None = None
    subject: str | None = None
    claims: Json | None = None


class TokenVerifier(Protocol):
    """Verifier of access tokens."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the verified token; None if it is invalid."""


access_token = ContextVar[AccessToken | None]("access_token", default=None)


def get_access_token() -> AccessToken | None:
    """Return the access token of the current request; None if it has none."""
    return access_token.get()
