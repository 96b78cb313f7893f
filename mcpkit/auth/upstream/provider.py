"""One provider, as its client: what OAuth has for all of them."""

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
"""Characters of a code; those of large directories have 2,000."""
MAX_CLAIMS: Final = 32 * 1024
"""Characters of all claims of a user together, as JSON."""

_LOGIN_IS_OVER: Final = frozenset(
    {
        "bad_refresh_token",  # GitHub
        "consent_required",
        "interaction_required",
        "login_required",
    }
)
"""Errors of a refresh after which a user has to log in again, beside `invalid_grant`."""
_NOTHING_TO_REVOKE: Final = frozenset({"invalid_token", "invalid_request", "unsupported_token_type"})
_OF_PROTOCOL: Final = OF_ID_TOKENS | {"azp", "jti", "sid", "sub"}
"""Claims about the login, not about the user."""


class Provider(ABC):
    """One provider, as its client.

    Args:
        settings: What is known of it.
        source: Says where its endpoints are.

    Attributes:
        settings: What is known of it.
        separators: What stands between scopes where it names them.
    """

    separators = " "

    def __init__(self, settings: Settings, source: EndpointSource) -> None:
        self.settings = settings
        self._source = source
        self._connections = Connections(settings.http_client, settings.timeout)

    async def authorization_url(self, *, redirect_uri: str, state: str, challenge: str, nonce: str) -> str:
        """Return where a browser is sent to log in.

        Args:
            redirect_uri: Where the provider sends it back to.
            state: What it brings back.
            challenge: The PKCE challenge (S256).
            nonce: What the ID token must say; providers without one do not hear of it.

        Raises:
            UpstreamUnavailableError: The provider's metadata cannot be had.
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
        """Return who has logged in, and their tokens.

        Tokens of which nobody can be told whose they are, or not in time, are revoked: nobody will ever use them. Where
        that would end the user's other logins, they are left to expire.

        Args:
            answer: The parameters of the callback.
            redirect_uri: Where the browser was sent back to.
            verifier: The PKCE verifier of this login.
            nonce: The nonce of this login.

        Raises:
            UpstreamRefusedError: The provider, or the user there, says no.
            UpstreamUnavailableError: It does not answer, or not as it must.
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
        """Return new tokens; the old refresh token stays where no new one comes back.

        Raises:
            UpstreamRefusedError: The provider says no: `invalid_grant` where the login is over. Also without a refresh
                token.
            UpstreamUnavailableError: It does not answer, or not as it must.
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
        """Have the provider end tokens (RFC 7009); where it has no way to do that, nothing is done.

        The refresh token goes first, which takes the others with it mostly.

        Raises:
            UpstreamUnavailableError: It does not answer, or not as it must.
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
        """Return who a user is now, with all that is known of them.

        A provider that says it in its ID tokens alone is not asked: then it is what the last one said, at the login or
        at a refresh.

        Raises:
            UpstreamRefusedError: The access token is worth nothing (any more): `invalid_token`.
            UpstreamUnavailableError: It does not answer, or not as it must.
        """

    async def said(
        self, tokens: UpstreamTokens, members: Mapping[str, object], nonce: str
    ) -> Mapping[str, object]:
        """Return what the ID token of a login says, verified; nothing for providers without one.

        Args:
            tokens: What came with it.
            members: All that was answered.
            nonce: What it must say of this login.

        Raises:
            UpstreamUnavailableError: It is none, or none for this login.
        """
        return {}

    async def said_again(
        self, tokens: UpstreamTokens, members: Mapping[str, object], before: Mapping[str, object]
    ) -> Mapping[str, object]:
        """Return what the ID token of a refresh says, or what the last one said where there is none that can be taken.

        The tokens that came with it are good all the same, and the old ones may be no longer.

        Args:
            tokens: What came with it.
            members: All that was answered.
            before: What the last one said.

        Raises:
            UpstreamRefusedError: It is of another user.
        """
        return before

    def parameters(self, endpoints: Endpoints, nonce: str) -> Mapping[str, str]:
        """Return more of an authorization request."""
        return {}

    def scopes(self, endpoints: Endpoints) -> tuple[str, ...]:
        """Return the scopes that are asked for."""
        return self.settings.scopes

    async def endpoints(self) -> Endpoints:
        """Return where the provider is asked.

        Raises:
            UpstreamUnavailableError: Nobody says so now.
        """
        try:
            found = await self._source.endpoints()
        except (FetchError, MetadataError) as error:
            raise UpstreamUnavailableError(str(error)) from None
        return replace(found, authentication=self.settings.authentication or found.authentication)

    async def userinfo(
        self, endpoints: Endpoints, tokens: UpstreamTokens, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, object]:
        """Return what the provider answers about whoever has an access token.

        Args:
            endpoints: Where it is asked.
            tokens: Theirs.
            headers: What goes along.

        Raises:
            UpstreamRefusedError: The token is worth nothing.
            UpstreamUnavailableError: It does not answer, or not as it must.
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
        """Send a request to the provider, and return what it answers.

        Raises:
            UpstreamUnavailableError: It does not.
        """
        named = f"{what} at {self.settings.title}"
        return await _reached(self._connections.ask(method, url, named, headers, content))

    def identity_of(self, subject: object, claims: Mapping[str, object]) -> Identity:
        """Return an identity of bounded size.

        Args:
            subject: What the provider calls somebody.
            claims: What it says of them; what is of the login itself is left out.

        Raises:
            UpstreamUnavailableError: The subject is none, or all of it is too much.
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
