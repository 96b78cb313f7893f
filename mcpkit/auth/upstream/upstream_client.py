"""OAuth client of this server at an identity provider: login, refresh, revocation, and the identity of the user."""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, urlencode

from ..._utils.option_checks import check_seconds
from ...identity.principals_and_scopes import check_text
from ..jwt import ID_TOKEN_CLAIMS, LEEWAY, MAX_NAME, select_claims
from ..oauth_http_client import (
    DEFAULT_TIMEOUT,
    Authentication,
    ClientSecret,
    FetchError,
    HttpClient,
    HttpResponse,
    TokenResponse,
    check_authentication,
    read_error,
)
from ..urls_and_discovery import check_url
from ..verifier import check_auth_extra, string_list

if TYPE_CHECKING:
    import httpx2

MAX_CODE: Final = 8 * 1024
"""Maximum characters of a code. Codes of large directories have 2,000."""
MAX_CLAIMS: Final = 32 * 1024
"""Maximum characters of all claims of a user, as JSON."""

_CLIENT_ERRORS: Final = frozenset(
    {"invalid_client", "unauthorized_client", "unsupported_grant_type"}
    | {"incorrect_client_credentials"}  # GitHub
)
"""Errors about this client, which the operator must fix. They do not end the login of a user."""
_TEMPORARY_ERRORS: Final = frozenset(
    {"temporarily_unavailable", "server_error", "slow_down", "too_many_requests"}
)
_LOGIN_ENDED: Final = frozenset(
    {"consent_required", "interaction_required", "login_required"}
    | {"bad_refresh_token"}  # the last is GitHub's
)
"""Errors of a refresh, besides `invalid_grant`, after which the user must log in again."""
_NOTHING_TO_REVOKE: Final = frozenset({"invalid_token", "invalid_request", "unsupported_token_type"})
_LOGIN_CLAIMS: Final = ID_TOKEN_CLAIMS | {"azp", "jti", "sid", "sub"}
"""Claims about the login, not about the user."""
_RESERVED_PARAMETERS: Final = frozenset(
    {"client_id", "client_secret", "code_challenge", "code_challenge_method", "nonce", "redirect_uri"}
    | {"request", "request_uri", "response_mode", "response_type", "scope", "state"}
)
"""Parameters of an authorization request that `parameters=` must not set."""


class UpstreamRefusedError(Exception):
    """The provider refused the request. A retry would have the same result.

    Args:
        error: Error code (RFC 6749, sections 4.1.2.1 and 5.2), such as `access_denied` or `invalid_grant`.
        description: The reason: bounded, visible ASCII without quotes and backslashes, and no part of the request.

    Attributes:
        error: The error code.
        description: The reason.
    """

    def __init__(self, error: str, description: str) -> None:
        super().__init__(f"{error}: {description}" if description else error)
        self.error = error
        self.description = description


class UpstreamUnavailableError(Exception):
    """The provider does not respond, sent an invalid response, or rejected this client. The login is not affected.

    The message is for the log. It contains the cause and what to change, and no secret.
    """


@dataclass(frozen=True)
class UpstreamTokens:
    """Tokens of one user at a provider. `asdict` converts them for JSON.

    Attributes:
        access_token: The access token for the APIs of the provider.
        refresh_token: The refresh token; None if the provider issued none.
        expires: Unix time in seconds at which the access token expires; None if unknown or never.
        scopes: Granted scopes, which can be fewer than requested.
        id_token_claims: Verified claims of the last ID token; empty if there are none.
    """

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires: float | None = None
    scopes: tuple[str, ...] = ()
    id_token_claims: Mapping[str, object] = field(default_factory=dict[str, object], repr=False, hash=False)


class Identity(NamedTuple):
    """Identity of a user at a provider.

    Attributes:
        subject: The subject, which never changes and is never reassigned.
        claims: Other claims of the user.
    """

    subject: str
    claims: Mapping[str, object]


@dataclass(frozen=True)
class Endpoints:
    """Endpoints and capabilities of a provider.

    Attributes:
        authorization: Authorization endpoint.
        token: Token endpoint.
        userinfo: Userinfo endpoint; None if there is none.
        revocation: Revocation endpoint (RFC 7009); None if there is none.
        sends_iss: Whether authorization responses contain `iss` (RFC 9207).
        needs_offline_access: Whether to request the scope `offline_access`.
        authentication: Client authentication method for clients with a secret.
    """

    authorization: str
    token: str
    userinfo: str | None = None
    revocation: str | None = None
    sends_iss: bool = False
    needs_offline_access: bool = False
    authentication: Authentication = "basic"


@dataclass(frozen=True)
class UpstreamSettings:
    """Checked settings of a provider.

    Attributes:
        issuer: Issuer of the user identities.
        client: Client credentials of this server.
        name: Name in code.
        title: Name on pages.
        scopes: Scopes to request.
        parameters: Additional parameters of the authorization request.
        claims: Names of claims that are kept at any size.
        authentication: Client authentication method; None takes it from the metadata.
        timeout: Seconds in which each response must be received.
        leeway: Tolerance for clock differences, in seconds.
        http_client: Client to use; None makes one.
        clock: Returns the Unix time in seconds.
        has_default_scopes: Whether the scopes are the default ones.
        is_public: Whether anyone can have an account there.
        revokes_all: Whether a revocation also ends the other logins of the same user with this client.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is not valid. The message contains the fix.
        ImportError: The extra `auth` is not installed.
    """

    issuer: str
    client: ClientSecret
    name: str = ""
    title: str = ""
    scopes: Collection[str] = ()
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    claims: Collection[str] = ()
    authentication: Authentication | None = None
    timeout: float = DEFAULT_TIMEOUT
    leeway: float = LEEWAY
    http_client: httpx2.AsyncClient | None = None
    clock: Callable[[], float] = time.time
    has_default_scopes: bool = True
    is_public: bool = False
    revokes_all: bool = False

    def __post_init__(self) -> None:
        check_auth_extra()
        check_url(self.issuer, "the issuer")
        for option, text in (("name", self.name), ("title", self.title)):
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
                raise TypeError(f"{option} must be a string, got {text!r}")
            if not 0 < len(text) <= MAX_NAME:
                raise ValueError(f"{option} must have 1 to {MAX_NAME:,} characters, got {len(text):,}")
        for scope in string_list("scopes", self.scopes):
            check_text(scope)
        string_list("claims", self.claims)
        if not all(isinstance(each, str) for pair in self.parameters.items() for each in pair):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError("parameters must be a mapping of strings to strings")
        if reserved := _RESERVED_PARAMETERS.intersection(self.parameters):
            raise ValueError(f"parameters must not contain {min(reserved)}, which is set for each login")
        if self.authentication is not None:
            check_authentication(self.authentication)
        check_seconds("timeout", self.timeout)
        check_seconds("leeway", self.leeway, may_be_zero=True)


class UpstreamClient(ABC):
    """OAuth client of this server at one identity provider.

    Args:
        settings: Settings of the provider.

    Attributes:
        settings: Settings of the provider.
        scope_separators: Characters that separate scopes in token responses.
    """

    scope_separators = " "

    def __init__(self, settings: UpstreamSettings) -> None:
        self.settings = settings
        self._connections = HttpClient(settings.http_client, settings.timeout)

    # Differences between providers

    @abstractmethod
    async def endpoints(self) -> Endpoints:
        """Return the endpoints.

        Raises:
            UpstreamUnavailableError: The metadata of the provider is not available or not valid.
        """

    @abstractmethod
    async def identify(self, tokens: UpstreamTokens) -> Identity:
        """Return the current identity of the user, with the known claims.

        A provider with claims only in its ID tokens gets no request. Then the claims are those of the last ID token.

        Raises:
            UpstreamRefusedError: The access token is no longer valid (`invalid_token`).
            UpstreamUnavailableError: The provider does not respond, or sent an invalid response.
        """

    async def id_token_claims(
        self,
        tokens: UpstreamTokens,
        response: Mapping[str, object],
        previous: Mapping[str, object],
        nonce: str | None = None,
    ) -> Mapping[str, object]:
        """Return the verified claims of the ID token of a login or refresh; empty for providers without ID tokens.

        Args:
            tokens: Access and refresh token of the same response.
            response: The token response.
            previous: Claims of the previous ID token.
            nonce: The nonce of the login; None for a refresh.

        Raises:
            UpstreamRefusedError: The ID token of a refresh is for another user.
            UpstreamUnavailableError: The ID token of a login is not valid, or its keys are not available.
        """
        return previous

    def request_parameters(self, endpoints: Endpoints, nonce: str) -> Mapping[str, str]:
        """Return additional parameters of an authorization request."""
        return {}

    def requested_scopes(self, endpoints: Endpoints) -> Collection[str]:
        """Return the scopes to request."""
        return self.settings.scopes

    # Login

    async def authorization_url(self, *, redirect_uri: str, state: str, challenge: str, nonce: str) -> str:
        """Return the URL of an authorization request.

        Args:
            redirect_uri: Redirect URI of this server.
            state: The `state` parameter.
            challenge: The PKCE challenge (S256).
            nonce: Nonce for the ID token; not sent to providers without ID tokens.

        Raises:
            UpstreamUnavailableError: The metadata of the provider is not available.
        """
        endpoints = await self.endpoints()
        query = {
            "response_type": "code",
            "client_id": self.settings.client.id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **self.request_parameters(endpoints, nonce),
            **self.settings.parameters,
        }
        if scopes := self.requested_scopes(endpoints):
            query["scope"] = " ".join(scopes)
        url = endpoints.authorization
        return f"{url}{'&' if '?' in url else '?'}{urlencode(query, quote_via=quote)}"

    async def redeem(
        self, answer: Mapping[str, str], *, redirect_uri: str, verifier: str, nonce: str
    ) -> tuple[Identity, UpstreamTokens]:
        """Redeem the code of a callback, and return the identity of the user and the tokens.

        If the identity cannot be determined, or not in time, the tokens are revoked. They are left to expire if a
        revocation would end other logins of the user.

        Args:
            answer: Parameters of the callback.
            redirect_uri: Redirect URI of the authorization request.
            verifier: PKCE verifier of this login.
            nonce: Nonce of this login.

        Raises:
            UpstreamRefusedError: The provider or the user refused the login.
            UpstreamUnavailableError: The provider does not respond, or sent an invalid response.
        """
        endpoints = await self.endpoints()
        issuer = answer.get("iss")
        if issuer != self.settings.issuer and (issuer is not None or endpoints.sends_iss):
            raise UpstreamRefusedError(
                "invalid_request", "the authorization response has another issuer (iss)"
            )
        if answer.get("error"):
            raise refusal_of(answer, (verifier, nonce))
        code = answer.get("code", "")
        if not 0 < len(code) <= MAX_CODE:
            raise UpstreamRefusedError("invalid_request", "the authorization response has no valid code")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        tokens, response = await self._request_tokens(endpoints, form, self.requested_scopes(endpoints))
        try:
            tokens = replace(tokens, id_token_claims=await self.id_token_claims(tokens, response, {}, nonce))
            return await self.identify(tokens), tokens
        except (UpstreamRefusedError, UpstreamUnavailableError, asyncio.CancelledError):
            if not self.settings.revokes_all:
                with suppress(UpstreamUnavailableError, asyncio.TimeoutError):
                    await asyncio.wait_for(self.revoke(tokens), self.settings.timeout)
            raise

    async def refresh(self, tokens: UpstreamTokens) -> UpstreamTokens:
        """Refresh tokens. The old refresh token is kept if the response has no new one.

        Raises:
            UpstreamRefusedError: The provider refused the refresh; with `invalid_grant` if the login has ended or there
                is no refresh token.
            UpstreamUnavailableError: The provider does not respond, or sent an invalid response.
        """
        if tokens.refresh_token is None:
            raise UpstreamRefusedError("invalid_grant", "the provider issued no refresh token")
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh_token}
        try:
            new, response = await self._request_tokens(await self.endpoints(), form, tokens.scopes)
        except UpstreamRefusedError as error:
            if error.error in _LOGIN_ENDED:
                raise UpstreamRefusedError("invalid_grant", str(error)) from None
            raise
        claims = await self.id_token_claims(new, response, tokens.id_token_claims)
        return replace(new, refresh_token=new.refresh_token or tokens.refresh_token, id_token_claims=claims)

    async def revoke(self, tokens: UpstreamTokens) -> None:
        """Revoke tokens (RFC 7009). It does nothing if the provider has no revocation endpoint.

        The refresh token is revoked first, which usually revokes the access token as well.

        Raises:
            UpstreamUnavailableError: The provider does not respond, or sent an invalid response.
        """
        endpoints = await self.endpoints()
        if endpoints.revocation is None:
            return
        for kind, token in (("refresh_token", tokens.refresh_token), ("access_token", tokens.access_token)):
            if token is None:
                continue
            credentials, headers = self.settings.client.authenticate(endpoints.authentication)
            form = {"token": token, "token_type_hint": kind, **credentials}
            answer = await self.send("POST", endpoints.revocation, "revocation", headers, form)
            try:
                error = None if answer.status == 200 else answer.members().get("error")
            except FetchError:
                error = None
            if answer.status != 200 and error not in _NOTHING_TO_REVOKE:
                raise unexpected_status(answer)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._connections.aclose()

    # Requests

    async def userinfo(
        self, url: str, tokens: UpstreamTokens, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, object]:
        """Return the userinfo response for an access token.

        Args:
            url: The userinfo endpoint.
            tokens: Tokens of the user.
            headers: Additional headers.

        Raises:
            UpstreamRefusedError: The access token is not valid.
            UpstreamUnavailableError: The provider does not respond, or sent an invalid response.
        """
        sent = {"Authorization": f"Bearer {tokens.access_token}", **(headers or {})}
        answer = await self.send("GET", url, "userinfo", sent)
        if answer.status == 401:
            raise UpstreamRefusedError("invalid_token", "the provider no longer accepts the access token")
        if answer.status != 200:
            raise unexpected_status(answer)
        try:
            return answer.members()
        except FetchError as error:
            raise UpstreamUnavailableError(str(error)) from None

    async def send(
        self,
        method: str,
        url: str,
        endpoint: str,
        headers: Mapping[str, str],
        content: Mapping[str, str] | bytes | None = None,
        *,
        is_repeatable: bool = True,
    ) -> HttpResponse:
        """Send a request to the provider, and return the response.

        Args:
            method: The HTTP method.
            url: URL of the endpoint.
            endpoint: Name of the endpoint for messages.
            headers: Additional headers.
            content: The body; a mapping is sent as a form.
            is_repeatable: Whether the request may be sent twice; see `HttpClient.request`.

        Raises:
            UpstreamUnavailableError: The provider sent no response.
        """
        name = f"{endpoint} at {self.settings.title}"
        try:
            return await self._connections.request(
                method, url, name, headers, content, is_repeatable=is_repeatable
            )
        except FetchError as error:
            raise UpstreamUnavailableError(str(error)) from None

    def identity(self, subject: object, claims: Mapping[str, object]) -> Identity:
        """Return an identity of bounded size.

        Args:
            subject: The subject.
            claims: Claims of the user. Claims about the login are removed.

        Raises:
            UpstreamUnavailableError: The subject is not valid, or the claims are too large.
        """
        title = self.settings.title
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_NAME or not subject.isprintable():
            raise UpstreamUnavailableError(f"{title} returned no valid user ID")
        personal = {name: value for name, value in claims.items() if name not in _LOGIN_CLAIMS}
        kept = select_claims(personal, self.settings.claims)
        if len(json.dumps(kept)) > MAX_CLAIMS:
            raise UpstreamUnavailableError(
                f"{title} returned more than {MAX_CLAIMS:,} characters of user claims. Name fewer in claims="
            )
        return Identity(subject, kept)

    async def _request_tokens(
        self, endpoints: Endpoints, form: Mapping[str, str], scopes: Collection[str]
    ) -> tuple[UpstreamTokens, Mapping[str, object]]:
        """Send a token request (OAuth 2.1, section 3.2), and return the tokens and the response.

        Args:
            endpoints: Endpoints of the provider.
            form: The request.
            scopes: The requested scopes, which are granted if the response has no `scope`.

        Raises:
            UpstreamRefusedError: The provider refused the request.
            UpstreamUnavailableError: The response is not valid, or the provider rejected this client for any user.
        """
        credentials, headers = self.settings.client.authenticate(endpoints.authentication)
        content, name = {**form, **credentials}, "the token endpoint"
        answer = await self.send("POST", endpoints.token, name, headers, content, is_repeatable=False)
        source = f"{answer.name} ({answer.url})"
        if answer.status >= 500 or answer.status in {408, 425, 429}:
            raise unexpected_status(answer)
        try:
            members = answer.members()
        except FetchError as error:
            status = "" if answer.status == 200 else f" (HTTP {answer.status})"
            raise UpstreamUnavailableError(f"{error}{status}") from None
        if members.get("error") is not None:  # some providers, such as GitHub, send errors with status 200
            secrets = [form[name] for name in ("code", "code_verifier", "refresh_token") if name in form]
            refusal = refusal_of(members, [*secrets, *self.settings.client.encodings()])
            if refusal.error in _CLIENT_ERRORS:
                raise UpstreamUnavailableError(
                    f"{source} rejected this client ({refusal}). Check client_id, client_secret and authentication, "
                    "and the settings of the client at the provider"
                )
            if refusal.error in _TEMPORARY_ERRORS:
                raise UpstreamUnavailableError(f"{source} is temporarily unavailable ({refusal})")
            raise refusal
        if answer.status != 200:
            raise unexpected_status(answer)
        try:
            tokens = TokenResponse.read(members, self.scope_separators)
        except ValueError as error:
            raise UpstreamUnavailableError(f"{source} responded with {error}") from None
        problems = tokens.problems
        if tokens.token_type != "bearer":
            problems = ("a token that is not a bearer token (token_type)",)
        if problems:
            raise UpstreamUnavailableError(f"{source} responded with {problems[0]}")
        expires = None if tokens.lifetime is None else self.settings.clock() + tokens.lifetime
        granted = tuple(scopes) if tokens.scopes is None else tokens.scopes
        return UpstreamTokens(tokens.access_token, tokens.refresh_token, expires, granted), members


def refusal_of(members: Mapping[str, object], secrets: Iterable[str] = ()) -> UpstreamRefusedError:
    """Return the error in a response.

    Args:
        members: The response, or the parameters of a callback.
        secrets: Secrets of the request, to remove from the description.
    """
    error, description = read_error(members, secrets)
    return UpstreamRefusedError(error or "server_error", description)


def unexpected_status(answer: HttpResponse) -> UpstreamUnavailableError:
    """Return the error for a response with another HTTP status than expected."""
    return UpstreamUnavailableError(f"{answer.name} ({answer.url}) responded with HTTP {answer.status}")


class OAuthClient(UpstreamClient):
    """OAuth client at a provider without OpenID Connect, with an API for the identity of the user.

    Args:
        settings: Settings of the provider.
        endpoints: Its endpoints, with the API as `userinfo`.
        subject_claim: Member of its response that identifies the user.
    """

    def __init__(self, settings: UpstreamSettings, endpoints: Endpoints, subject_claim: str) -> None:
        super().__init__(settings)
        for name in ("authorization", "token", "userinfo", "revocation"):
            if (url := getattr(endpoints, name)) is not None:
                check_url(url, f"{name}_endpoint")
        self._endpoints = replace(
            endpoints, authentication=settings.authentication or endpoints.authentication
        )
        self._subject_claim = subject_claim

    async def endpoints(self) -> Endpoints:
        """Return the endpoints."""
        return self._endpoints

    async def identify(self, tokens: UpstreamTokens) -> Identity:
        """Return the current identity of the user. Numeric subjects become strings."""
        members = await self.userinfo(str(self._endpoints.userinfo), tokens)
        subject = members.get(self._subject_claim)
        return self.identity(str(subject) if type(subject) is int else subject, members)
