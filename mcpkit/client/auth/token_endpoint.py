"""Requests to the token endpoint: client authentication (OAuth 2.1, 2.4; RFC 7523) and DPoP proofs (RFC 9449)."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final, Literal, Protocol
from urllib.parse import urlsplit

from ...auth.jws import base64url_encode
from ...auth.oauth_http_client import Authentication, ClientSecret, TokenResponse, remove_secrets
from ...auth.urls_and_discovery import AuthorizationServerMetadata, canonical, origin, shortened
from ...auth.verifier import auth_library
from ...protocol.jsonrpc import Json
from .authorization_server_client import (
    AuthorizationFailedError,
    AuthorizationServerClient,
    EndpointResponse,
    TokenRefusedError,
)
from .token_storage import Tokens

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
    if secret is None:
        return _NONE  # a public client, whatever the metadata lists
    # Without the member, the method is client_secret_basic (RFC 8414, section 2).
    methods = server.strings("token_endpoint_auth_methods_supported") or (_BASIC,)
    if methods == (_NONE,):
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


class PrivateKeyJwt:
    """Authenticates a client by assertions that it signs (`private_key_jwt`).

    Args:
        client_id: The client id.
        key: The private key: the text of a PEM file, the file's path, or a JWK.
        algorithm: The algorithm, such as `ES256`. None takes one that suits the key and the authorization server.
        key_id: The `kid` of the key. None takes that of the JWK, if it has one.
        audience: The `aud` of assertions. None takes the issuer of the authorization server, as the specification
            requires. Some servers require the URL of their token endpoint.

    Raises:
        ImportError: joserfc is not installed.
        OSError: The file cannot be read.
        ValueError: It is not a private key, or does not suit the algorithm.
    """

    def __init__(
        self,
        client_id: str,
        key: str | Path | Json,
        algorithm: str | None = None,
        key_id: str | None = None,
        audience: str | None = None,
    ) -> None:
        data: str | Json = key.read_text("utf-8") if isinstance(key, Path) else key
        self.client_id = client_id
        self._audience = audience
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
        self._header: Json = {"typ": "JWT"} if key_id is None else {"typ": "JWT", "kid": key_id}

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add an assertion to the form. It is valid once and for a few minutes.

        Raises:
            AuthorizationFailedError: The authorization server accepts no algorithm of the key.
        """
        from joserfc import jwt

        accepted = server.strings("token_endpoint_auth_signing_alg_values_supported")
        usable = [name for name in self._algorithms if accepted is None or name in accepted]
        if not usable:
            raise AuthorizationFailedError(
                f"the authorization server accepts client assertions signed with {', '.join(accepted or ())[:200]}, but"
                f" private_key= can only sign with {' or '.join(self._algorithms)}. Use a key of another kind"
            )
        now = int(time.time())
        claims: Json = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": self._audience or server.issuer,
            "jti": token_urlsafe(24),
            "iat": now,
            "exp": now + _ASSERTION_LIFETIME,
        }
        with warnings.catch_warnings():
            # joserfc warns about the name EdDSA and recommends Ed25519, which few servers know.
            warnings.simplefilter("ignore")
            assertion = jwt.encode(
                {**self._header, "alg": usable[0]}, claims, self._key, algorithms=usable[:1]
            )
        _add_assertion(request, self.client_id, assertion)


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


@dataclass(frozen=True)
class ForeignAssertion:
    """Authenticates a client by an assertion of another issuer, such as the platform that it runs on.

    Args:
        client_id: The client id.
        assertion: Reads the JWT.
    """

    client_id: str
    assertion: TokenReader = field(repr=False)

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add the assertion to the form."""
        _add_assertion(request, self.client_id, await self.assertion.read())


def _add_assertion(request: TokenRequest, client_id: str, assertion: str) -> None:
    # The assertion contains the ID too, but some authorization servers look for it in the form (RFC 7521, 4.2).
    request.form["client_id"] = client_id
    request.form["client_assertion_type"] = ASSERTION_TYPE
    request.form["client_assertion"] = assertion


# DPoP

_ALGORITHM: Final = "ES256"
_PUBLIC: Final = ("crv", "kty", "x", "y")
"""The public members of a key, in the order of which RFC 7638 takes the thumbprint."""
_NONCE: Final = re.compile(r"[!#-\[\]-~]{1,1024}")
_MAX_ORIGINS: Final = 100


class Prover:
    """Makes DPoP proofs with one private key.

    Args:
        key: The private key, as a JWK, that tokens are bound to. None, or an invalid key, makes a new one; tokens bound
            to an invalid key cannot be used any more.

    Raises:
        ImportError: joserfc is not installed.
    """

    def __init__(self, key: Json | None = None) -> None:
        auth_library("joserfc.jwk")
        from joserfc.jwk import ECKey, generate_key, import_key

        private: ECKey | None = None
        members = key or {}
        if members.get("crv") == "P-256" and all(
            isinstance(members.get(name), str) for name in (*_PUBLIC, "d")
        ):
            try:
                private = import_key(members, "EC")
            except Exception:  # noqa: BLE001  # joserfc and cryptography raise many for an invalid key
                private = None
        self._key = private or generate_key("EC", "P-256")
        public = self._key.as_dict(private=False)
        self._public = {name: public[name] for name in _PUBLIC}
        self._nonces: dict[str, str] = {}

    @property
    def key(self) -> Json:
        """The private key, as a JWK, to store with the tokens."""
        return dict(self._key.as_dict(private=True))

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        """Return a new proof for one request, the value of the header `DPoP` (section 4.2).

        Args:
            method: The HTTP method.
            url: The URL. Query and fragment are ignored.
            token: The access token of the request; None for the token endpoint.
        """
        from joserfc import jwt

        parts = urlsplit(url)
        claims: Json = {
            "jti": token_urlsafe(16),
            "htm": method,
            "htu": f"{parts.scheme}://{parts.netloc}{parts.path or '/'}",
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = base64url_encode(sha256(token.encode()).digest())
        if (nonce := self._nonces.get(origin(url))) is not None:
            claims["nonce"] = nonce
        header: Json = {"typ": "dpop+jwt", "alg": _ALGORITHM, "jwk": self._public}
        return jwt.encode(header, claims, self._key, algorithms=[_ALGORITHM])

    def set_nonce(self, url: str, nonce: str) -> None:
        """Store a nonce (`DPoP-Nonce`) for further proofs for the origin of a URL (sections 8 and 9).

        An invalid nonce is ignored.

        Args:
            url: A URL with that origin.
            nonce: The nonce.
        """
        if _NONCE.fullmatch(nonce) is None:
            return
        if len(self._nonces) >= _MAX_ORIGINS:
            self._nonces.clear()
        self._nonces[origin(url)] = nonce


# Token requests

_TOKEN_TYPES: Final = {"bearer": "Bearer", "dpop": "DPoP"}


@dataclass(frozen=True)
class GrantContext:
    """The server and authorization server that tokens are obtained for and from.

    Attributes:
        url: The URL of the server.
        resource: The resource identifier of the server, as it publishes it. The tokens are issued for it.
        server: The metadata of the authorization server.
        scopes: The scopes to request; None leaves `scope` out.
        http: Sends requests to the authorization server.
        published: The scopes in the metadata of the server.
        prover: The DPoP prover; None for bearer tokens.
    """

    url: str
    resource: str
    server: AuthorizationServerMetadata
    scopes: tuple[str, ...] | None
    http: AuthorizationServerClient = field(repr=False)
    published: tuple[str, ...] = ()
    prover: Prover | None = field(default=None, repr=False)

    async def tokens(self, form: Mapping[str, str], authentication: ClientAuthentication) -> Tokens:
        """Request tokens from the token endpoint.

        Args:
            form: The parameters of the grant. `resource` is added, and `scope` if it is missing. An empty `scope` is
                left out.
            authentication: The client authentication.

        Returns:
            The tokens.

        Raises:
            TokenRefusedError: The token endpoint responded with an error.
            AuthorizationFailedError: The token endpoint did not respond, or its response has no tokens.
            MetadataError: There is no token endpoint, or its URL may not be requested.
        """
        issuer, prover = self.server.issuer, self.prover
        what = f"the token endpoint of {shortened(issuer)}"
        parameters = {"resource": self.resource, "scope": " ".join(self.scopes or ()), **form}
        request = TokenRequest(
            self.server.endpoint("token_endpoint"),
            {name: value for name, value in parameters.items() if value},
        )
        await authentication.sign(request, self.server)
        response = await self._post(request, what)
        if prover is not None and response.nonce is not None:
            prover.set_nonce(request.url, response.nonce)
            if response.members.get("error") == "use_dpop_nonce":
                response = await self._post(request, what)
        if response.status >= 500 and "error" not in response.members:
            raise AuthorizationFailedError(f"{what} responded with HTTP {response.status}", may_pass=True)
        raise_refusal(response.members, what, request.secrets)
        try:
            if response.status != 200:
                raise ValueError
            tokens = TokenResponse.read(response.members)
        except ValueError:
            raise AuthorizationFailedError(
                f"{what} responded with HTTP {response.status} without a valid access token"
            ) from None
        if tokens.token_type not in _TOKEN_TYPES:
            raise AuthorizationFailedError(
                f"{what} issued a token of type {shortened(tokens.token_type)}, which this client does not support"
            )
        is_bound = tokens.token_type == "dpop"
        if is_bound and prover is None:
            raise AuthorizationFailedError(
                f"{what} issued a DPoP-bound token, but the client sent no DPoP proof. Set dpop=True"
            )
        return Tokens(
            canonical(self.url),
            issuer,
            authentication.client_id,
            tokens.access_token,
            tokens.refresh_token,
            _TOKEN_TYPES[tokens.token_type],
            None if tokens.lifetime is None else time.time() + tokens.lifetime,
            frozenset(tokens.scopes or self.scopes or ()),
            prover.key if prover is not None and is_bound else None,
        )

    async def _post(self, request: TokenRequest, what: str) -> EndpointResponse:
        headers = dict(request.headers)
        if self.prover is not None:
            headers["DPoP"] = self.prover.proof("POST", request.url)
        return await self.http.post(request.url, what, form=request.form, headers=headers)


def raise_refusal(members: Mapping[str, object], what: str, secrets: Iterable[str] = ()) -> None:
    """Raise the error of an error response; do nothing for other responses.

    Args:
        members: The members of the response.
        what: The name of the endpoint in messages.
        secrets: Secrets of the request, which are removed from the message.

    Raises:
        TokenRefusedError: It is an error response.
    """
    error = members.get("error")
    if isinstance(error, str):
        may_pass = error in {"temporarily_unavailable", "server_error", "slow_down"}
        message = f"{what} sent an error: {error_words(members, secrets)}"
        raise TokenRefusedError(message, remove_secrets(error, secrets), may_pass=may_pass)


def error_words(members: Mapping[str, object], secrets: Iterable[str] = ()) -> str:
    """Return the error of a response as a short text without secrets."""
    error, description = members.get("error"), members.get("error_description")
    text = f"{error} ({description})" if isinstance(description, str) and description else str(error)
    return shortened(remove_secrets(text, secrets))
