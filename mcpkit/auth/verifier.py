"""Interface of token verifiers, the values of `Server(auth=...)`, what all of them check, and static tokens."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from .._utils.exceptions import LoginNeededError
from .._utils.package import missing_package
from ..identity.principals_and_scopes import Principal

if TYPE_CHECKING:
    from types import ModuleType

    from starlette.routing import Route

    from ..identity.audit_and_revocation import AuditLog
    from ..identity.principals_and_scopes import Scopes
    from ..storage.base import Storage
    from ..storage.encryption_keys import Keys

logger = logging.getLogger(__name__)

InThread = Callable[[Callable[[], object]], Awaitable[object]]
"""Calls a function in a thread and returns its result."""


class InvalidTokenError(Exception):
    """The access token is not valid here: forged, expired, for another audience, or not a token (HTTP 401).

    Args:
        description: The reason in one sentence, for the client and the log. Visible ASCII without quotes and
            backslashes, and no part of the token (RFC 6750, section 3).
        advice: Hint for the operator, if the configuration is the likely cause. It is logged once per process and never
            sent to a client. It must contain no part of the token.
    """

    def __init__(self, description: str, *, advice: str | None = None) -> None:
        super().__init__(description)
        self.description = description
        self.advice = advice


class VerifierUnavailableError(Exception):
    """The token cannot be verified now, because the authorization server does not respond (HTTP 503).

    Args:
        description: What is unavailable, for the log. Clients only receive `Retry-After`.
        retry_after: Seconds after which the client should retry.
    """

    def __init__(self, description: str, *, retry_after: int = 5) -> None:
        super().__init__(description)
        self.description = description
        self.retry_after = retry_after


class AccessToken(NamedTuple):
    """A verified access token: the principal, and the period of validity.

    Attributes:
        principal: The user or client of the token, with the granted scopes.
        expires: Unix time in seconds at which the token expires; None for a token that does not expire.
        issued: Unix time in seconds at which the token was issued; None if unknown.
        fresh_until: Unix time in seconds until which the result may be cached; None until the token expires.
    """

    principal: Principal
    expires: float | None = None
    issued: float | None = None
    fresh_until: float | None = None


class ProtectedResource(NamedTuple):
    """The server that a token verifier protects (OAuth's protected resource).

    Attributes:
        public_url: URL of the MCP endpoint, as clients use it.
        resources: URLs of all endpoints that accept tokens. Each is a separate audience.
        name: Name of the server.
        keys: Keys that sign and encrypt for the server.
        scopes: The scopes of the server.
        storage: Storage that all processes of the server share.
        audit: The audit log of the server.
        run_in_thread: Calls a blocking function in one of the worker threads of the server.
    """

    public_url: str
    resources: tuple[str, ...]
    name: str
    keys: Keys
    scopes: Scopes
    storage: Storage
    audit: AuditLog
    run_in_thread: InThread = asyncio.to_thread


class VerifierContext(NamedTuple):
    """Name, keys, storage and audit log of a server, for calls of a verifier that need no public URL.

    Attributes:
        name: Name of the server.
        keys: Keys that sign and encrypt for the server.
        storage: Storage that all processes of the server share.
        audit: The audit log of the server.
    """

    name: str
    keys: Keys
    storage: Storage
    audit: AuditLog


class TokenVerifier(ABC):
    """Base class of token verifiers. A subclass must implement `verify`.

    Attributes:
        issuers: Issuers of the authorization servers that clients can log in at. If empty, clients need a token from
            the operator.
        providers: Names of the identity providers with upstream tokens, for `ctx.upstream_token`.
    """

    issuers: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()

    @abstractmethod
    async def verify(self, token: str, audience: str) -> AccessToken:
        """Verify an access token, and return its principal and validity.

        The result is cached until `fresh_until` or until the token expires. The server refuses a token if the claims of
        its principal contain `cnf`, because a token that is bound to a key must not be accepted as a bearer token.

        Args:
            token: The bearer token of the request: untrusted text without spaces.
            audience: URL of the endpoint, which must be an audience of the token.

        Raises:
            InvalidTokenError: The token is not valid for this server.
            VerifierUnavailableError: The token cannot be verified now.
        """

    def bind(self, resource: ProtectedResource) -> None:  # noqa: B027 - most need nothing of it
        """Bind the verifier to the server that it protects. It is called once for each app, before the app serves.

        Args:
            resource: The protected server.

        Raises:
            ValueError: The verifier cannot be used there. The message contains the fix.
        """

    def routes(self) -> Sequence[Route]:
        """Return additional routes at the root of the server, such as the endpoints of an authorization server.

        Cross-origin requests from browsers are refused, unless the endpoint has a true attribute `is_for_any_origin`.
        """
        return ()

    def refusal(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the reason to refuse a request regardless of its token; None to serve it.

        Args:
            headers: Headers of the request, by lower-case name.
        """
        return None

    def notices(self) -> Sequence[str]:
        """Return notices for the operator at each start of the server, such as a redirect URI to register."""
        return ()

    async def token_for(self, principal: Principal, provider: str, context: VerifierContext) -> str:
        """Return the access token of a user at an identity provider, valid for a while; see `Context.upstream_token`.

        Args:
            principal: The user.
            provider: One of `providers`.
            context: Name, keys and storage of the server.

        Raises:
            LoginNeededError: The user has not logged in at the provider, or must log in again.
            ProviderUnavailableError: The provider does not respond.
        """
        raise LoginNeededError(provider)

    async def revoke(self, principal: Principal, context: VerifierContext) -> None:  # noqa: B027 - most have granted nothing
        """Revoke all grants of a principal, for all clients, so that no client can get new tokens for it.

        Args:
            principal: The user or client.
            context: Name, keys and storage of the server.

        Raises:
            OSError: The storage does not respond.
        """

    async def aclose(self) -> None:  # noqa: B027 - most have nothing to close
        """Close connections of the running event loop. The verifier can be used again afterwards."""


# Tokens

MAX_SCOPES: Final = 1_000
"""Maximum number of scopes of a token."""

ISSUER_ADVICE: Final = "its `iss` must equal %s byte for byte, as configured in auth="


def check_unbound(claims: Mapping[str, object]) -> None:
    """Check that a token is a plain bearer token, and not bound to a key of its client (RFC 7800, 3.1).

    A bound token must come with a proof of possession: with the header `DPoP` (RFC 9449, 7.1), or over a TLS connection
    with the certificate of the client (RFC 8705, 3). Accepted without one, a stolen token would be worth as much as if
    it were not bound.

    Args:
        claims: Claims of the token, or members of its introspection response.

    Raises:
        InvalidTokenError: The token is bound to a key.
    """
    if claims.get("cnf") is not None:
        raise InvalidTokenError(
            "the token is bound to a key of its client (cnf), which a bearer request does not prove",
            advice=(
                "this server accepts bearer tokens only, because anyone could send a bound token without its key."
                " Configure the issuer to issue tokens for this server that are not bound to a key or certificate"
                " (DPoP, mTLS)"
            ),
        )


# Options

_CONSEQUENCES: Final = {
    "accept_tokens_for_any_audience": (
        "the server accepts tokens that %s issued for other APIs, and those APIs can use the tokens sent here"
    ),
    "accept_plain_http": (
        "requests to %s may be unencrypted, and others on the network can read secrets and replace keys and responses. "
        "Use it only in a private network"
    ),
    "accept_id_tokens": (
        "the server accepts ID tokens of %s, which are issued to clients and not for access to APIs"
    ),
    "accept_unannounced_pkce": (
        "the client logs in at %s even if its metadata does not announce PKCE. Without PKCE, an attacker can redeem a "
        "stolen authorization code"
    ),
}


def warn_insecure_options(where: str, issuer: str, options: Mapping[str, bool]) -> None:
    """Log a warning for each option that accepts what is refused by default.

    Args:
        where: The server or the class that has the options.
        issuer: The issuer, or words for it.
        options: Values of the `accept_...` options, by name.
    """
    for name, is_on in options.items():
        if is_on:
            logger.warning("%s: %s=True: %s", where, name, _CONSEQUENCES[name] % issuer)


def string_list(option: str, value: object, *, or_else: str = "") -> tuple[str, ...]:
    """Return the strings of an option that is a list.

    Args:
        option: Name of the option.
        value: The list.
        or_else: Other accepted types, for the message.

    Raises:
        TypeError: The value is not a list of strings.
    """
    if isinstance(value, Collection) and not isinstance(value, str):
        items: Collection[object] = value  # pyright: ignore[reportUnknownVariableType]  # it is of objects
        texts = tuple(each for each in items if isinstance(each, str))
        if len(texts) == len(items):
            return texts
    raise TypeError(f"{option} must be {or_else}a list of strings, got {value!r}")


# Libraries of the extra `auth`


def auth_library(module: str) -> ModuleType:
    """Import a module of a library of the extra `auth`.

    Raises:
        ImportError: The library is not installed. The message contains the install command.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise _missing(module.partition(".")[0], error.name) from error


def check_auth_extra() -> None:
    """Check that the libraries of the extra `auth` are installed, without importing them.

    Raises:
        ImportError: One is not installed. The message contains the install command.
    """
    for library in ("httpx2", "joserfc"):
        if library not in sys.modules and find_spec(library) is None:
            raise _missing(library, library)


def _missing(library: str, name: str | None) -> ImportError:
    return ImportError(missing_package("authorization", library, "auth"), name=name)


# Static access tokens from the operator, for machines and development

_MIN_BITS = 128
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""Syntax of a bearer token (RFC 6750, section 2.1)."""
_ALPHABETS: Final = (("0123456789", 3.32), ("0123456789abcdefABCDEF", 4.0))
_MIN_CHARACTERS = 8  # different characters: a random token of 128 bits has more
_ADVICE: Final = 'python -c "from mcpkit.auth import StaticTokens; print(*StaticTokens.make())"'


class StaticTokens(TokenVerifier):
    """Verifier of a fixed set of tokens: `Server("notes", auth=StaticTokens({os.environ["TOKEN"]: "backup"}))`.

    Use it for machines and for development. Clients cannot log in to get a token. A token is valid until the server
    starts without it. The verifier stores only hashes.

    `python -c "from mcpkit.auth import StaticTokens; print(*StaticTokens.make())"` prints a new token and its hash.

    Args:
        tokens: Principal by token: a `Principal`, the ID of one, or a tuple of an ID and scopes. In place of a token,
            its hash is accepted: `sha256:` and 64 hexadecimal digits.

    Raises:
        TypeError: `tokens` is not a mapping, or has a key or value of another type.
        ValueError: `tokens` is empty, a token is too short to be random, or a token occurs twice.
    """

    def __init__(self, tokens: Mapping[str, Principal | str | tuple[str, Collection[str]]]) -> None:
        if not isinstance(tokens, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(
                "StaticTokens: tokens must be a mapping of tokens to principals or their ids, not"
                f" {type(tokens).__name__}"
            )
        if not tokens:
            raise ValueError(f"StaticTokens({{}}) has no token. Make one with: {_ADVICE}")
        grants = [(_digest_of(token), AccessToken(_principal(value))) for token, value in tokens.items()]
        if len({digest for digest, _ in grants}) < len(grants):
            raise ValueError(
                "StaticTokens: a token occurs twice, in plain text and as its hash. Remove one of them"
            )
        self._grants = tuple(grants)

    @staticmethod
    def make() -> tuple[str, str]:
        """Return a new random token for the client, and its hash for the server."""
        token = secrets.token_urlsafe(32)
        return token, f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Return the principal of a token.

        Raises:
            InvalidTokenError: The token is not in the set.
        """
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        # All of them are compared, so that the time does not depend on which one matches.
        found = [grant for each, grant in self._grants if hmac.compare_digest(each, digest)]
        if not found:
            raise InvalidTokenError("the token is not one of the static tokens of this server")
        return found[0]

    def bind(self, resource: ProtectedResource) -> None:
        """Log a warning that clients cannot log in."""
        logger.warning(
            "%s accepts %d static token%s at %s: clients cannot log in there and need a token from the operator",
            resource.name,
            len(self._grants),
            "" if len(self._grants) == 1 else "s",
            resource.public_url,
        )


def _digest_of(token: object) -> bytes:
    if not isinstance(token, str):
        raise TypeError(f"StaticTokens: a token must be a string, not {type(token).__name__}")
    hashed = _HASH.fullmatch(token)
    if hashed is not None:
        return bytes.fromhex(hashed[1])
    if token.startswith("sha256:"):
        raise ValueError(
            f"StaticTokens: a hash must be sha256: and 64 lower-case hexadecimal digits. Make one with: {_ADVICE}"
        )
    if not _TOKEN.fullmatch(token):
        raise ValueError(
            f"StaticTokens: a token contains characters that a bearer token cannot have. Make one with: {_ADVICE}"
        )
    bits = next((bits for alphabet, bits in _ALPHABETS if not set(token) - set(alphabet)), 6.0)
    if len(token) * bits < _MIN_BITS or len(set(token)) < _MIN_CHARACTERS:
        raise ValueError(
            f"StaticTokens: a token has fewer than {_MIN_BITS} random bits and could be guessed. Make one with:"
            f" {_ADVICE}"
        )
    return hashlib.sha256(token.encode()).digest()


def _principal(value: Principal | str | tuple[str, Collection[str]]) -> Principal:
    match value:
        case Principal():
            principal = value
        case str():
            principal = Principal(value)
        case (str(), Collection()):
            principal = Principal(value[0], string_list("the scopes of a static token", value[1]))
        case _:
            raise TypeError(
                'StaticTokens: the value of a token must be a Principal, an id such as "backup", or a tuple such as'
                ' ("backup", ["notes:read"])'
            )
    if principal.id is None:
        raise ValueError("StaticTokens: the principal of a token has no id. Give it an id")
    return principal
