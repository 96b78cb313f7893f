"""Code that all replacements share: recognition of SDK models, protocol errors, settings, logging, access tokens."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Final, Literal, Protocol, TypeAlias, TypeGuard, get_args, get_origin, get_type_hints

from pydantic import AnyHttpUrl, BaseModel, field_validator, model_validator
from pydantic_core import to_jsonable_python
from typing_extensions import Self

from ..protocol.jsonrpc import Json, is_object
from ..protocol.objects import Incomplete
from . import types

# Recognition of models, and their conversion

BLOCKS = ("TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource")
_INSTALLED = ("mcp.", "mcp_types.", "fastmcp.")

logger = logging.getLogger("mcpkit.compat")

_logged: set[str] = set()


def log_difference(key: str, text: str) -> None:
    """Log a difference from the SDK for which a server was written, once for each process.

    Args:
        key: Key of the difference.
        text: The difference, and the fix.
    """
    if key not in _logged:
        _logged.add(key)
        logger.warning("%s", text)


def is_kind(of: type, *names: str) -> bool:
    """Return True if a class, or a base class of it, has one of these names in an SDK."""
    return not _names(of).isdisjoint(names)


@lru_cache(1024)
def _names(of: type) -> frozenset[str]:
    modules = ("mcpkit.compat.", *_INSTALLED)
    return frozenset(each.__name__ for each in of.__mro__ if each.__module__.startswith(modules))


def find_context_parameter(fn: object) -> str | None:
    """Return the name of the first parameter with the annotation `Context`, optional or not."""
    try:
        hints = get_type_hints(fn)
    except Exception:  # noqa: BLE001 - annotations may raise anything when they are evaluated
        return None
    return next((name for name, hint in hints.items() if is_context(hint)), None)


def is_context(hint: object) -> bool:
    """Return True for the annotation `Context`, optional or not."""
    classes = (get_origin(each) or each for each in (hint, *get_args(hint)))
    return any(isinstance(of, type) and is_kind(of, "Context") for of in classes)


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return True for a list or a tuple."""
    return isinstance(value, list | tuple)


def to_own(value: Incomplete) -> Incomplete:
    """Convert models of an installed SDK, also in lists, to those of mcpkit; return other values unchanged."""
    if is_list(value):
        return [to_own(each) for each in value]
    if isinstance(value, BaseModel):
        for each in type(value).__mro__:
            model = getattr(types, each.__name__, None) if each.__module__.startswith(_INSTALLED) else None
            if model is not None:
                excluded = {"result_type"}  # which mcp 2.x adds for clients of 2026-07-28
                dump = value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=excluded)
                return model.model_validate(dump)
    return value


def to_json_object(value: Incomplete) -> Json:
    """Return a model of `mcp.types`, of any package, as the JSON object that is sent."""
    root: Incomplete = getattr(value, "root", value)
    if is_object(root):
        return root
    dump: Json = to_jsonable_python(root, by_alias=True, exclude_none=True)
    return dump


def jsonschema_check(schema: Json) -> Callable[[object], str | None]:
    """Return a function with which `jsonschema` finds the first problem of a value, as in the SDKs.

    Raises:
        ImportError: jsonschema is not installed.
    """
    library = import_module("jsonschema")
    validator_class = library.validators.validator_for(schema)
    validator_class.check_schema(schema)
    validator = validator_class(schema)

    def first_problem(value: object) -> str | None:
        error = library.exceptions.best_match(validator.iter_errors(value))
        return None if error is None else str(error.message)

    return first_problem


# Protocol errors and messages

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


# Settings and logging of `FastMCP` of `mcp` 1.x

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
    max_request_body_size: int = DEFAULT_MAX_REQUEST_BODY_SIZE
    session_idle_timeout: float | None = DEFAULT_SESSION_IDLE_TIMEOUT
    max_sessions: int | None = DEFAULT_MAX_SESSIONS
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
