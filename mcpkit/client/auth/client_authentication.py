"""Client authentication at a token endpoint: secrets (OAuth 2.1, 2.4) and signed assertions (RFC 7523, 2.2)."""

from __future__ import annotations

import asyncio
import inspect
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, Literal, Protocol

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.token_requests import Authentication, ClientSecret
from ...auth.urls import shortened
from ...auth.verifier import auth_library
from ...protocol.jsonrpc import Json
from .authorization_server_client import AuthorizationFailedError

if TYPE_CHECKING:
    from joserfc.jwk import Key

PresentedToken = str | Path | Callable[[], str | Awaitable[str]]
"""A token; the path of a file that holds it, read each time; or a function that returns it, which may be `async`."""

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

_BASIC: Final = "client_secret_basic"
_POST: Final = "client_secret_post"
_NONE: Final = "none"
_ASSERTION_LIFETIME: Final = 300
"""Seconds for which an assertion is valid, with a margin for clock differences."""
_KEY_TYPES: Final[tuple[Literal["EC", "RSA", "OKP"], ...]] = ("EC", "RSA", "OKP")
_ALGORITHMS: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": ("RS256", "PS256", "RS384", "PS384", "RS512", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
}
"""Algorithms of keys, the usual ones first."""
_NO_KEY: Final = (
    "private_key= must be an unencrypted private key: the text of a PEM file, its path as a pathlib.Path, or a JWK."
    " Supported are RSA, P-256, P-384, P-521 and Ed25519"
)


@dataclass
class TokenRequest:
    """A request to a token endpoint, before it is sent.

    Attributes:
        url: The URL of the endpoint.
        form: The form parameters.
        headers: The additional headers.
        encoded: Secrets that a header contains in encoded form.
    """

    url: str
    form: dict[str, str] = field(repr=False)
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    encoded: list[str] = field(default_factory=list[str], repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """All possibly secret values in the request, which are removed from error messages."""
        return (*self.form.values(), *self.headers.values(), *self.encoded)


class ClientAuthentication(Protocol):
    """Authenticates a client at a token endpoint."""

    @property
    def client_id(self) -> str:
        """The client id."""
        ...

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add `client_id`, and a secret or an assertion, to the form or headers of a request.

        Args:
            request: The request.
            server: The authorization server. Its `issuer` is the audience of assertions.
        """


# With a secret, or without one


@dataclass(frozen=True)
class SecretAuthentication:
    """Client authentication by a secret, or that of a public client, which sends its `client_id` only.

    Args:
        client_id: The client id.
        secret: The client secret; None for a public client.
        method: `"basic"` with the header `Authorization`, or `"post"` in the form.
    """

    client_id: str
    secret: str | None = field(default=None, repr=False)
    method: Authentication = "basic"

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add the credentials to the headers or to the form."""
        client = ClientSecret(self.client_id, self.secret)
        form, headers = client.authenticate(self.method)
        request.form.update(form)
        request.headers.update(headers)
        request.encoded += client.encodings()


def method_to_register(server: AuthorizationServerMetadata) -> str:
    """Return the method to register for a client on a user's machine: without a secret if the server allows that."""
    methods = server.strings("token_endpoint_auth_methods_supported") or (_NONE,)
    return next((method for method in (_NONE, _BASIC, _POST) if method in methods), _NONE)


def method_for(secret: str | None, server: AuthorizationServerMetadata) -> str:
    """Return the method for a client that was registered without naming one."""
    # Without the member, the method is client_secret_basic (RFC 8414, section 2).
    methods = server.strings("token_endpoint_auth_methods_supported") or (_BASIC,)
    if secret is None or methods == (_NONE,):
        return _NONE
    return _POST if _POST in methods and _BASIC not in methods else _BASIC


def by_method(method: str, client_id: str, secret: str | None) -> ClientAuthentication:
    """Return the client authentication for a method.

    Raises:
        AuthorizationFailedError: The method is unknown, or requires a secret that is missing.
    """
    if method == _NONE:
        return SecretAuthentication(client_id)
    if method not in {_BASIC, _POST}:
        raise AuthorizationFailedError(
            f"the authorization server requires the client authentication method {shortened(method)},"
            " which this client does not support"
        )
    if secret is None:
        raise AuthorizationFailedError(
            f"the authorization server requires a client secret ({method}) but did not issue one at registration"
        )
    return SecretAuthentication(client_id, secret, "basic" if method == _BASIC else "post")


# With an assertion, signed by the client or by another issuer


class TokenReader:
    """Reads a token of a platform or an identity provider when it is needed, because it may change.

    Args:
        name: The name of the argument, for messages.
        source: The token, the path of its file, or a function.

    Raises:
        TypeError: It is none of these.
        ValueError: It is empty.
    """

    def __init__(self, name: str, source: PresentedToken) -> None:
        if not isinstance(source, (str, Path)) and not callable(source):
            raise TypeError(
                f"{name} must be a token, the pathlib.Path of a file with it, or a function that returns it, not"
                f" {type(source).__name__}"
            )
        if source == "":
            raise ValueError(
                f"{name} is empty. Pass a token, the pathlib.Path of a file with it, or a function that returns it"
            )
        self._name = name
        self._source = source

    async def read(self) -> str:
        """Return the current token.

        Raises:
            AuthorizationFailedError: There is no token.
        """
        token: object = self._source
        if isinstance(self._source, Path):
            try:
                token = (await asyncio.to_thread(self._source.read_text, "utf-8")).strip()
            except (OSError, UnicodeDecodeError) as error:
                reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
                raise AuthorizationFailedError(
                    f"{self._name} cannot be read from {self._source}: {reason}", may_pass=True
                ) from None
        elif not isinstance(self._source, str):
            returned = self._source()
            token = await returned if inspect.isawaitable(returned) else returned
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
            raise AuthorizationFailedError(
                f"{self._name} did not yield a token. It must be a single line of printable ASCII",
                may_pass=True,
            )
        return token


class SigningKey:
    """A private key that signs assertions.

    Args:
        key: The text of a PEM file, the file's path, or a JWK.
        algorithm: The algorithm, such as `ES256`. None takes one that suits the key and the authorization server.
        key_id: The `kid` of the key. None takes that of the JWK, if it has one.

    Raises:
        ImportError: joserfc is not installed.
        OSError: The file cannot be read.
        ValueError: It is not a private key, or does not suit the algorithm.
    """

    def __init__(
        self, key: str | Path | Json, algorithm: str | None = None, key_id: str | None = None
    ) -> None:
        data: str | Json = key.read_text("utf-8") if isinstance(key, Path) else key
        self._key = _import_private_key(data)
        kind = self._key.key_type
        if kind != "RSA":
            kind = str(self._key.as_dict(private=False)["crv"])
        algorithms = _ALGORITHMS.get(kind)
        if algorithms is None:
            raise ValueError(_NO_KEY)
        if algorithm is not None and algorithm not in algorithms:
            raise ValueError(
                f"algorithm={algorithm!r} does not fit a {kind} key. Use {' or '.join(algorithms)}"
            )
        self._algorithms = algorithms if algorithm is None else (algorithm,)
        if key_id is None and isinstance(data, Mapping) and data.get("kid") is not None:
            key_id = str(data["kid"])
        self._key_id = key_id

    def sign(self, claims: Json, accepted: tuple[str, ...] | None) -> str:
        """Return claims as a signed JWT.

        Args:
            claims: The claims.
            accepted: The algorithms that the recipient accepts; None if it announces none.

        Raises:
            AuthorizationFailedError: The recipient accepts no algorithm of this key.
        """
        from joserfc import jwt

        usable = [name for name in self._algorithms if accepted is None or name in accepted]
        if not usable:
            raise AuthorizationFailedError(
                f"the authorization server accepts client assertions signed with {', '.join(accepted or ())[:200]}, but"
                f" private_key= can only sign with {' or '.join(self._algorithms)}. Use a key of another kind"
            )
        header: Json = {"typ": "JWT", "alg": usable[0]}
        if self._key_id is not None:
            header["kid"] = self._key_id
        with warnings.catch_warnings():
            # joserfc warns about the name EdDSA and recommends Ed25519, which few servers know.
            warnings.simplefilter("ignore")
            return jwt.encode(header, claims, self._key, algorithms=usable[:1])


def _import_private_key(data: str | Json) -> Key:
    auth_library("joserfc.jwk")
    from joserfc.jwk import import_key

    for key_type in _KEY_TYPES:
        try:
            key = import_key(data, key_type)
        except Exception:  # noqa: BLE001  # joserfc and cryptography raise many for another kind of key
            continue
        if key.is_private:
            return key
    raise ValueError(_NO_KEY)


class PrivateKeyJwt:
    """Authenticates a client by signed assertions (`private_key_jwt`).

    Args:
        client_id: The client id.
        key: The private key.
        audience: The `aud` of assertions. None takes the issuer of the authorization server, as the specification
            requires. Some servers require the URL of their token endpoint.
    """

    def __init__(self, client_id: str, key: SigningKey, audience: str | None = None) -> None:
        self.client_id = client_id
        self._key = key
        self._audience = audience

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add an assertion to the form. It is valid once and for a few minutes."""
        now = int(time.time())
        claims: Json = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": self._audience or server.issuer,
            "jti": token_urlsafe(24),
            "iat": now,
            "exp": now + _ASSERTION_LIFETIME,
        }
        accepted = server.strings("token_endpoint_auth_signing_alg_values_supported")
        _add_assertion(request, self.client_id, self._key.sign(claims, accepted))


class ForeignAssertion:
    """Authenticates a client by an assertion of another issuer, such as the platform that it runs on.

    Args:
        client_id: The client id.
        assertion: Reads the JWT.
    """

    def __init__(self, client_id: str, assertion: TokenReader) -> None:
        self.client_id = client_id
        self._assertion = assertion

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add the assertion to the form."""
        _add_assertion(request, self.client_id, await self._assertion.read())


def _add_assertion(request: TokenRequest, client_id: str, assertion: str) -> None:
    # The assertion contains the ID too, but some authorization servers look for it in the form (RFC 7521, 4.2).
    request.form["client_id"] = client_id
    request.form["client_assertion_type"] = ASSERTION_TYPE
    request.form["client_assertion"] = assertion


class RegisteredClient:
    """A client that was registered by hand, with exactly one of secret, private key and assertion.

    Args:
        client_id: The client id.
        issuer: The authorization server that has registered the client.
        secret: The client secret.
        private_key: The private key that signs assertions.
        assertion: A JWT from another issuer.
        algorithm: The algorithm of the signature.
        key_id: The `kid` of the key.
        audience: The `aud` of assertions.

    Raises:
        ValueError: None or several of them are given; or `issuer` is missing.
    """

    def __init__(
        self,
        client_id: str,
        issuer: str | None,
        *,
        secret: str | None,
        private_key: str | Path | Json | None,
        assertion: PresentedToken | None = None,
        algorithm: str | None = None,
        key_id: str | None = None,
        audience: str | None = None,
    ) -> None:
        if not client_id:
            raise ValueError(
                "client_id is empty. Pass the client ID that the authorization server has issued"
            )
        if sum(each is not None for each in (secret, private_key, assertion)) != 1:
            raise ValueError("pass exactly one of secret=, private_key= and assertion=")
        if issuer is None and (private_key is None or audience is not None):
            raise ValueError(
                "issuer= is missing. Pass the issuer of the authorization server that registered the client: without"
                " it, any authorization server that an MCP server names would get the credentials"
            )
        if private_key is None and (algorithm, key_id, audience) != (None, None, None):
            raise ValueError("algorithm=, key_id= and audience= require private_key=")
        self.client_id: Final = client_id
        self._secret = secret
        self._assertion: ClientAuthentication | None = None
        if private_key is not None:
            self._assertion = PrivateKeyJwt(client_id, SigningKey(private_key, algorithm, key_id), audience)
        elif assertion is not None:
            self._assertion = ForeignAssertion(client_id, TokenReader("assertion=", assertion))

    def authentication(self, server: AuthorizationServerMetadata) -> ClientAuthentication:
        """Return the client authentication at an authorization server."""
        return self._assertion or by_method(method_for(self._secret, server), self.client_id, self._secret)
