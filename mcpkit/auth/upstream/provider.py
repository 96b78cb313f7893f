"""Base class of providers: the OAuth requests that all of them have."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final
from urllib.parse import quote, urlencode

from ..claims import MAX_NAME, OF_ID_TOKENS, kept_claims
from ..client_secret import Authentication
from ..connections import Answer, Connections
from ..fetching import FetchError
from ..urls import MetadataError
from .endpoints import Endpoints, EndpointSource
from .errors import UpstreamRefusedError, UpstreamUnavailableError
from .options import Settings
from .token_answers import members_of_tokens, refusal_in, tokens_in
from .tokens import Identity, UpstreamTokens

MAX_CODE: Final = 8 * 1024
"""Maximum characters of a code. Codes of large directories have 2,000."""
MAX_CLAIMS: Final = 32 * 1024
"""Maximum characters of all claims of a user, as JSON."""

_LOGIN_IS_OVER: Final = frozenset(
    {
        "bad_refresh_token",  # GitHub
        "consent_required",
        "interaction_required",
        "login_required",
    }
)
"""Errors of a refresh, besides `invalid_grant`, after which the user must log in again."""
_NOTHING_TO_REVOKE: Final = frozenset({"invalid_token", "invalid_request", "unsupported_token_type"})
_OF_PROTOCOL: Final = OF_ID_TOKENS | {"azp", "jti", "sid", "sub"}
"""Claims about the login, not about the user."""


class Provider(ABC):
    """Base class of identity providers, with this server as the client.

    Args:
        settings: Settings of the provider.
        source: Source of its endpoints.

    Attributes:
        settings: Settings of the provider.
        separators: Characters that separate scopes in token responses.
    """

    separators = " "

    def __init__(self, settings: Settings, source: EndpointSource) -> None:
        self.settings = settings
        self._source = source
        self._connections = Connections(settings.http_client, settings.timeout)

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
        asked = {
            "response_type": "code",
            "client_id": self.settings.client.id,
            "redirect_uri": redirect_uri,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **self.parameters(endpoints, nonce),
            **self.settings.parameters,
        }
        if scopes := self.scopes(endpoints):
            asked["scope"] = " ".join(scopes)
        url = endpoints.authorization
        return f"{url}{'&' if '?' in url else '?'}{urlencode(asked, quote_via=quote)}"

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
        named = answer.get("iss")
        if named != self.settings.issuer and (named is not None or endpoints.says_issuer):
            raise UpstreamRefusedError(
                "invalid_request", "the authorization response has another issuer (iss)"
            )
        if answer.get("error"):
            raise refusal_in(answer, (verifier, nonce))
        code = answer.get("code", "")
        if not 0 < len(code) <= MAX_CODE:
            raise UpstreamRefusedError("invalid_request", "the authorization response has no valid code")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        members = await self._asked_for_tokens(endpoints, form)
        tokens = self._tokens_in(members, self.scopes(endpoints))
        try:
            tokens = replace(tokens, said=await self.said(tokens, members, nonce))
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
            members = await self._asked_for_tokens(await self.endpoints(), form)
        except UpstreamRefusedError as error:
            if error.error in _LOGIN_IS_OVER:
                raise UpstreamRefusedError("invalid_grant", str(error)) from None
            raise
        renewed = self._tokens_in(members, tokens.scopes)
        return replace(
            renewed,
            refresh_token=renewed.refresh_token or tokens.refresh_token,
            said=await self.said_again(renewed, members, tokens.said),
        )

    async def revoke(self, tokens: UpstreamTokens) -> None:
        """Revoke tokens (RFC 7009). It does nothing if the provider has no revocation endpoint.

        The refresh token is revoked first, which usually revokes the access token as well.

        Raises:
            UpstreamUnavailableError: The provider does not respond, or sent an invalid response.
        """
        endpoints = await self.endpoints()
        url = endpoints.revocation
        if url is None:
            return
        for kind, token in (("refresh_token", tokens.refresh_token), ("access_token", tokens.access_token)):
            if token is None:
                continue
            form = {"token": token, "token_type_hint": kind}
            answer = await self._post(url, "revocation", form, endpoints.authentication)
            if answer.status != 200 and _error_in(answer) not in _NOTHING_TO_REVOKE:
                raise UpstreamUnavailableError(
                    f"{answer.what} ({answer.url}) responded with HTTP {answer.status}"
                )

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._connections.aclose()

    @abstractmethod
    async def identify(self, tokens: UpstreamTokens) -> Identity:
        """Return the current identity of the user, with the known claims.

        A provider with claims only in its ID tokens is not requested. Then the claims are those of the last ID token.

        Raises:
            UpstreamRefusedError: The access token is no longer valid (`invalid_token`).
            UpstreamUnavailableError: The provider does not respond, or sent an invalid response.
        """

    async def said(
        self, tokens: UpstreamTokens, members: Mapping[str, object], nonce: str
    ) -> Mapping[str, object]:
        """Return the verified claims of the ID token of a login; empty for providers without ID tokens.

        Args:
            tokens: Tokens of the same response.
            members: The token response.
            nonce: Nonce of the login.

        Raises:
            UpstreamUnavailableError: The ID token is not valid for this login.
        """
        return {}

    async def said_again(
        self, tokens: UpstreamTokens, members: Mapping[str, object], before: Mapping[str, object]
    ) -> Mapping[str, object]:
        """Return the claims of the ID token of a refresh, or the previous ones if it has no valid ID token.

        The new tokens are kept in either case, because the old ones may no longer be valid.

        Args:
            tokens: Tokens of the same response.
            members: The token response.
            before: Claims of the previous ID token.

        Raises:
            UpstreamRefusedError: The ID token is for another user.
        """
        return before

    def parameters(self, endpoints: Endpoints, nonce: str) -> Mapping[str, str]:
        """Return additional parameters of an authorization request."""
        return {}

    def scopes(self, endpoints: Endpoints) -> tuple[str, ...]:
        """Return the scopes to request."""
        return self.settings.scopes

    async def endpoints(self) -> Endpoints:
        """Return the endpoints.

        Raises:
            UpstreamUnavailableError: The metadata of the provider is not available or not valid.
        """
        try:
            found = await self._source.endpoints()
        except (FetchError, MetadataError) as error:
            raise UpstreamUnavailableError(str(error)) from None
        return replace(found, authentication=self.settings.authentication or found.authentication)

    async def userinfo(
        self, endpoints: Endpoints, tokens: UpstreamTokens, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, object]:
        """Return the userinfo response for an access token.

        Args:
            endpoints: Endpoints of the provider.
            tokens: Tokens of the user.
            headers: Additional headers.

        Raises:
            UpstreamRefusedError: The access token is not valid.
            UpstreamUnavailableError: The provider does not respond, or sent an invalid response.
        """
        if endpoints.userinfo is None:
            raise UpstreamUnavailableError(f"the metadata of {self.settings.title} has no userinfo_endpoint")
        sent = {"Authorization": f"Bearer {tokens.access_token}", **(headers or {})}
        answer = await self.ask("GET", endpoints.userinfo, "userinfo", sent)
        if answer.status == 401:
            raise UpstreamRefusedError("invalid_token", "the provider no longer accepts the access token")
        try:
            if answer.status == 200:
                return answer.members()
        except FetchError as error:
            raise UpstreamUnavailableError(str(error)) from None
        raise UpstreamUnavailableError(f"{answer.what} ({answer.url}) responded with HTTP {answer.status}")

    async def ask(
        self, method: str, url: str, what: str, headers: Mapping[str, str], content: bytes | None = None
    ) -> Answer:
        """Send a request to the provider, and return the response.

        Raises:
            UpstreamUnavailableError: The provider sent no response.
        """
        named = f"{what} at {self.settings.title}"
        return await _reached(self._connections.ask(method, url, named, headers, content))

    def identity_of(self, subject: object, claims: Mapping[str, object]) -> Identity:
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
        personal = {name: value for name, value in claims.items() if name not in _OF_PROTOCOL}
        kept = kept_claims(personal, self.settings.claims)
        if len(json.dumps(kept)) > MAX_CLAIMS:
            raise UpstreamUnavailableError(
                f"{title} returned more than {MAX_CLAIMS:,} characters of user claims. Name fewer in claims="
            )
        return Identity(subject, kept)

    async def _asked_for_tokens(self, endpoints: Endpoints, form: Mapping[str, str]) -> Mapping[str, object]:
        answer = await self._post(
            endpoints.token, "the token endpoint", form, endpoints.authentication, is_repeatable=False
        )
        secrets = [form[name] for name in ("code", "code_verifier", "refresh_token") if name in form]
        return members_of_tokens(answer, [*secrets, *self.settings.client.spellings()])

    async def _post(
        self,
        url: str,
        what: str,
        form: Mapping[str, str],
        method: Authentication,
        *,
        is_repeatable: bool = True,
    ) -> Answer:
        client = self.settings.client
        named, sent = f"{what} at {self.settings.title}", {**form, **client.in_form(method)}
        headers = client.in_headers(method)
        return await _reached(self._connections.post(url, named, sent, headers, is_repeatable=is_repeatable))

    def _tokens_in(self, members: Mapping[str, object], asked: Collection[str]) -> UpstreamTokens:
        who = f"the token endpoint of {self.settings.title}"
        return tokens_in(members, who, asked, self.settings.clock(), self.separators)


async def _reached(asking: Awaitable[Answer]) -> Answer:
    try:
        return await asking
    except FetchError as error:
        raise UpstreamUnavailableError(str(error)) from None


def _error_in(answer: Answer) -> object:
    try:
        return answer.members().get("error")
    except FetchError:
        return None
