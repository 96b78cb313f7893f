"""Endpoints of `OAuthProxy`: consent on a page of this server, login at the provider, the callback, and rate limits."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from html import escape
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..._utils.concurrency import run_shielded
from ..._utils.exceptions import RegistrationError
from ...identity.principals_and_scopes import Principal, digest_of, scope_names
from ..authorization_server.authorization_server import AuthorizationServer
from ..authorization_server.consent_page import REMEMBER_FIELD, AuthorizationRequest, ConsentCookie
from ..authorization_server.grants import GrantRecord
from ..authorization_server.html_pages import (
    LOGIN_LIFETIME,
    MAX_COOKIES,
    Branding,
    LoginCookies,
    new_login_id,
    page,
)
from ..authorization_server.oauth_clients import ClientDocuments
from ..authorization_server.oauth_requests import (
    NO_STORE,
    Clock,
    OAuthError,
    Parameters,
    client_address,
    is_untrusted_proxy,
    seal,
    unseal,
)
from ..jws import base64url_encode
from ..upstream.upstream_client import UpstreamRefusedError, UpstreamUnavailableError
from ..verifier import ProtectedResource
from .upstream_logins import LoginEndedError, UpstreamLogin, UpstreamLogins

logger = logging.getLogger(__name__)

Allow = Callable[[Principal], "bool | Collection[str] | Awaitable[bool | Collection[str]]"]
"""Decides whether a user may log in, or which scopes they may have; async or not."""

_ALLOW_TIMEOUT = 30.0
"""Seconds in which `allow=` must return, while a user and a client wait."""
_UPSTREAM_TIMEOUT = 30.0
"""Seconds in which the provider must respond, regardless of the timeout of its client."""
_CLIENT_ERRORS = frozenset({"access_denied", "temporarily_unavailable"})
"""Errors of the provider that a client gets unchanged; all others become `server_error`."""
_PURPOSE = "OAuth login at a provider"
_MAX_LOGINS = 4
"""Maximum logins in progress in one browser."""
_CHECKBOX = (
    f'<label class="check"><input type="checkbox" name="{REMEMBER_FIELD}" value="yes"> '
    "Do not ask me again in this browser for 30 days</label>"
)


@dataclass(frozen=True)
class LoginTransaction:
    """A login in progress at the provider.

    Attributes:
        authorization: The authorization request, which the user has allowed.
        expires: Unix time in seconds at which the login expires.
        consent: Time and user of the remembered consent that skipped the page; else None.
        remember: Whether the user chose to have the consent remembered.
        id: ID of the login, the `state` of the request to the provider.
        verifier: The PKCE verifier for the provider (RFC 7636).
        nonce: Binds the ID token of the provider to this login.
    """

    authorization: AuthorizationRequest
    expires: float
    consent: str | None = None
    remember: bool = False
    id: str = field(default_factory=new_login_id)
    verifier: str = field(default_factory=partial(secrets.token_urlsafe, 32))
    nonce: str = field(default_factory=partial(secrets.token_urlsafe, 16))


class ProxyServer(AuthorizationServer):
    """Authorization server of `OAuthProxy`: obtains consent, and redirects users to the provider and back.

    A login in progress is encrypted, bound to its ID and to this authorization server, in a cookie that scripts and
    other sites cannot read. The browser sends it when the provider redirects the user here. So nothing is stored for
    users that never return, any process with the secret can continue, and a link sent to another user is useless.
    `claim` ensures that a login is used once.

    Errors after the consent are sent to the redirect URI of the client with its `state`, because the URI is checked and
    the user has allowed the client.

    Args:
        issuer: URL of the authorization server.
        resource: The protected server.
        logins: Completed logins at the provider.
        lifetime: Seconds for which an access token is valid.
        documents: Client ID metadata documents; None forbids them.
        branding: Title and logo of the pages.
        allow: Decides whether a user may log in; None allows every user.
        remembers_consent: Offer users to skip the consent page.
        clock: Returns the Unix time in seconds.

    Attributes:
        callback_url: Redirect URI for the provider.
    """

    def __init__(
        self,
        issuer: str,
        resource: ProtectedResource,
        logins: UpstreamLogins,
        lifetime: float,
        documents: ClientDocuments | None,
        branding: Branding,
        allow: Allow | None,
        *,
        remembers_consent: bool,
        clock: Clock = time.time,
    ) -> None:
        grants, users = logins.grants, logins.upstream.issuer
        super().__init__(issuer, resource, grants, lifetime, documents, (), branding, users, clock)
        self.callback_url = self.url("/callback")
        self._upstream = logins.upstream
        self._logins = logins
        self._allow_function = allow
        self._consent_cookie: ConsentCookie | None = None
        if remembers_consent:
            self._consent_cookie = ConsentCookie(issuer, users, resource, clock)
        self._cookies = LoginCookies("mcpkit-login-", _MAX_LOGINS, is_secure=issuer.startswith("https:"))

    def routes(self) -> list[Route]:
        """Return the endpoints, and the callback for the provider, with paths from the root of the origin."""
        path = urlsplit(self.callback_url).path
        return [
            *super().routes(),
            Route(path, self.endpoint(self._callback, for_browsers=True), methods=["GET"]),
        ]

    # Consent

    async def begin_login(self, authorization: AuthorizationRequest, request: Request) -> Response:
        """Return the consent page, or a redirect to the provider if the consent is remembered."""
        cookie = self._consent_cookie
        consent = None if cookie is None else cookie.find(authorization, request)
        if consent is not None:
            self.consent.audit(authorization, "remembered")
            return await self._redirect_to_provider(authorization, request, consent=consent)
        offers_checkbox = cookie is not None and cookie.is_possible(authorization)
        title = escape(self._upstream.title)
        fields = f"<p>Next, you will log in with <b>{title}</b>.</p>{_CHECKBOX if offers_checkbox else ''}"
        return self.consent.show(authorization, self.consent.form(authorization, fields), request)

    async def answer_login(self, request: Request) -> Response:
        """Process the consent form: redirect to the provider, or deny.

        Raises:
            OAuthError: The form is not valid.
        """
        authorization, form = await self.consent.read_answer(request)
        remember = False
        if form.require("answer") != "allow":
            response = self.refuse(authorization, "access_denied", "the user denied the request")
        else:
            remember = form.get(REMEMBER_FIELD) is not None
            response = await self._redirect_to_provider(authorization, request, remember=remember)
        if self._consent_cookie is not None and not remember:
            self._consent_cookie.forget(authorization.client_id, request, response)
        return response

    async def _redirect_to_provider(
        self,
        authorization: AuthorizationRequest,
        request: Request,
        *,
        consent: str | None = None,
        remember: bool = False,
    ) -> Response:
        """Redirect a user to the provider after the consent, with the login in a cookie."""
        transaction = LoginTransaction(authorization, self.clock() + LOGIN_LIFETIME, consent, remember)
        challenge = base64url_encode(sha256(transaction.verifier.encode()).digest())
        prepare = self._upstream.provider.authorization_url(
            redirect_uri=self.callback_url, state=transaction.id, challenge=challenge, nonce=transaction.nonce
        )
        try:
            url = await asyncio.wait_for(prepare, _UPSTREAM_TIMEOUT)
        except (UpstreamUnavailableError, asyncio.TimeoutError) as error:
            return self._unavailable(authorization, error)
        cookie = seal(self.resource.keys, _PURPOSE, asdict(transaction), self._place(transaction.id))
        if len(cookie) > MAX_COOKIES:
            return self.refuse(authorization, "invalid_request", "state or redirect_uri is too long")
        response = RedirectResponse(url, 303, headers={**NO_STORE, "Referrer-Policy": "no-referrer"})
        self._cookies.set(transaction.id, cookie, request, response)
        return response

    # Callback

    async def _callback(self, request: Request) -> Response:
        """Process the callback of the provider.

        A callback is redeemed once. A repeated one is refused in every process.

        Raises:
            OAuthError: This browser has not started the login, or it was already completed. There is no client to
                notify.
            OSError: The storage does not respond. The user can retry.
        """
        parameters = Parameters(request.scope["query_string"])
        answer = parameters.check_repeated()
        transaction = self._find_transaction(request, parameters.require("state"))
        await self.claim(transaction.authorization)
        # The tokens that the provider issues are stored or revoked, even if the browser disconnects.
        response = await run_shielded(self._complete(transaction, answer, request))
        self._cookies.delete(transaction.id, request, response)
        return response

    def _find_transaction(self, request: Request, state: str) -> LoginTransaction:
        members = unseal(self.resource.keys, _PURPOSE, self._cookies.get(state, request), self._place(state))
        transaction = None
        # The cookie is missing, or another version of mcpkit wrote other members.
        with suppress(AttributeError, TypeError, KeyError):
            authorization = AuthorizationRequest(**members.pop("authorization"))
            transaction = LoginTransaction(authorization, **members)
        if transaction is None or self.clock() >= transaction.expires:
            raise OAuthError(
                "invalid_request",
                "this login was started in another browser, or it is over; start it again in the client, "
                "in one browser",
            )
        return transaction

    def _place(self, id_: str) -> str:
        return f"{self.issuer}\n{id_}"

    async def _complete(
        self, transaction: LoginTransaction, answer: Mapping[str, str], request: Request
    ) -> Response:
        """Redirect a user to the client, with a code if the provider and `allow=` admit the user."""
        authorization = transaction.authorization
        redeem = self._upstream.provider.redeem(
            answer, redirect_uri=self.callback_url, verifier=transaction.verifier, nonce=transaction.nonce
        )
        try:
            identity, tokens = await asyncio.wait_for(redeem, _UPSTREAM_TIMEOUT)
        except UpstreamRefusedError as error:
            logger.warning("%s refused a login: %r", self._upstream.title, str(error))
            self.audit_refusal(request, "the identity provider refused the login")
            code = error.error if error.error in _CLIENT_ERRORS else "server_error"
            return self.refuse(authorization, code, "the identity provider refused the login")
        except (UpstreamUnavailableError, asyncio.TimeoutError) as error:
            return self._unavailable(authorization, error)
        now = self.clock()
        data = asdict(UpstreamLogin(tokens, now, now))
        record = self.new_record(authorization, identity.subject, identity.claims, data)
        return await self._admit(transaction, record, identity.subject, request)

    async def _admit(
        self, transaction: LoginTransaction, record: GrantRecord, subject: str, request: Request
    ) -> Response:
        """Redirect a user that the provider identified to the client, with a code if `allow=` admits the user."""
        authorization, cookie = transaction.authorization, self._consent_cookie
        principal = self.principal(record, record.scopes, record.claims)
        if transaction.consent is not None and not await self._is_valid(transaction.consent, subject):
            await self._logins.release(record)
            description = "the remembered consent is not valid for this user; try again"
            response = self.refuse(authorization, "access_denied", description)
            if cookie is not None:
                cookie.forget(authorization.client_id, request, response)
            return response
        try:
            scopes = await self._check_access(principal)
        except Exception:
            logger.exception("allow= raised an exception, so the login was refused. Correct the function")
            await self._logins.release(record)
            description = "the server could not check the access of the user"
            return self.refuse(authorization, "server_error", description)
        if scopes is False:
            await self._logins.release(record)
            self.audit_refusal(request, "allow= denied access to the user", principal=principal)
            return self.refuse(authorization, "access_denied", "the user has no access to this server")
        try:
            response = await self.allow(authorization, record, None if scopes is True else scopes)
        except OSError:
            logger.exception(
                "the shared store failed, so a login could not be stored and was refused. The user can log in again"
            )
            description = "the server cannot store the login now"
            return self.refuse(authorization, "temporarily_unavailable", description)
        if cookie is not None and transaction.remember:
            cookie.remember(authorization, subject, request, response)
        return response

    async def _is_valid(self, consent: str, subject: str) -> bool:
        """Return True if a remembered consent is valid for this user."""
        try:
            return self._consent_cookie is not None and await self._consent_cookie.is_valid(consent, subject)
        except OSError:
            logger.exception(
                "the shared store failed, so a remembered consent could not be read and a login was "
                "refused. The user can log in again"
            )
            return False

    def _unavailable(self, authorization: AuthorizationRequest, error: Exception) -> Response:
        reason = str(error) or "it did not respond in time"
        logger.warning("%s: a login failed: %r", self._upstream.title, reason)
        return self.refuse(
            authorization,
            "temporarily_unavailable",
            "the identity provider is not available now; the cause is in the log of the server",
        )

    # Grants

    async def authorize_refresh(self, record: GrantRecord) -> bool | Collection[str]:
        """Check at a refresh whether a user may have new tokens, by the provider and `allow=`.

        Raises:
            OAuthError: The check is not possible now.
        """
        try:
            record = await self._logins.with_checked_user(record)
        except LoginEndedError:
            return False
        except UpstreamUnavailableError as error:
            raise _temporarily_unavailable(str(error)) from None
        try:
            return await self._check_access(self.principal(record, record.scopes, record.claims))
        except Exception:
            logger.exception(
                "allow= raised an exception, so a token refresh was answered with 503. Correct the function"
            )
            raise _temporarily_unavailable(
                "the server could not check the access of the user; try again later"
            ) from None

    def grant_created(self, record: GrantRecord) -> None:
        """Schedule the end of a grant, in case the client does not redeem its code in time."""
        self._logins.schedule_release(record)

    async def release(self, record: GrantRecord) -> None:
        """Revoke the tokens of an ended grant at the provider."""
        await self._logins.release(record)

    async def _check_access(self, principal: Principal) -> bool | Collection[str]:
        """Return whether a user may log in, or the maximum scopes, by `allow=`.

        Scopes that the server does not have are logged as a warning and ignored.

        Args:
            principal: The user, with the requested scopes.

        Raises:
            TypeError: The function returned another type.
            TimeoutError: The function did not return in time.
            Exception: The exception of the function.
        """
        if (allow := self._allow_function) is None:
            return True

        async def call() -> object:
            if inspect.iscoroutinefunction(allow):
                return await allow(principal)
            result = await self.resource.run_in_thread(partial(allow, principal))
            return await result if inspect.isawaitable(result) else result

        try:
            result = await asyncio.wait_for(call(), _ALLOW_TIMEOUT)
        except asyncio.TimeoutError as error:
            raise TimeoutError(
                f"allow= did not return within {_ALLOW_TIMEOUT:g} s. Make the function faster"
            ) from error
        if isinstance(result, bool):
            return result
        kind = type(result).__name__
        if result is None or isinstance(result, Mapping):
            raise TypeError(f"allow= must return True, False or the scopes that a user may have, got {kind}")
        names = scope_names("the result of allow=", result)
        try:
            self.resource.scopes.check("allow= returns", names)
        except RegistrationError as error:
            logger.warning("%s", error)
        return names


def _temporarily_unavailable(description: str) -> OAuthError:
    return OAuthError("temporarily_unavailable", description, status=503, headers={"Retry-After": "5"})


# Rate limits and CORS

_PREFLIGHT_SECONDS = "7200"
"""Seconds for which a browser may cache a preflight response, the maximum of Chrome."""


class Rate(NamedTuple):
    """Rate limit of one address.

    Attributes:
        every: Seconds until one more request is allowed.
        burst: Maximum requests at once.
    """

    every: float
    burst: int


PAGES = Rate(every=1.0, burst=60)
"""For pages. One address can be a household or a company."""
REGISTRATIONS = Rate(every=2.0, burst=60)
TOKENS = Rate(every=0.1, burst=300)
"""For tokens. One address can be a host that runs the clients of all its users."""

_PAGES = frozenset({"authorize", "callback"})
"""Last path segments of pages for browsers. All other endpoints are for programs."""
_RATES = {"authorize": PAGES, "callback": PAGES, "register": REGISTRATIONS, "token": TOKENS, "revoke": TOKENS}


def protect_routes(routes: Iterable[Route], resource: ProtectedResource, branding: Branding) -> list[Route]:
    """Return the endpoints of an authorization server with rate limits and CORS.

    Args:
        routes: The endpoints.
        resource: The protected server, which has the storage of the counters.
        branding: Title and logo of the pages.
    """
    warned: set[str] = set()
    protected: list[Route] = []
    for route in routes:
        name, app, methods = route.path.rpartition("/")[2], route.app, set(route.methods or ())
        if name in _RATES:
            app = _RateLimit(app, name, resource, branding, warned)
        if name not in _PAGES:
            app = _AnyOrigin(app, ", ".join(sorted(methods | {"OPTIONS"})))
            methods.add("OPTIONS")
        protected.append(Route(route.path, app, methods=sorted(methods)))
    return protected


@dataclass
class _RateLimit:
    """ASGI middleware that counts the requests of each address, in all processes together, and refuses excessive ones.

    Requests through a proxy that the ASGI server does not trust are not counted, because all its clients would share
    one address. Nothing is counted while the storage does not respond.

    Attributes:
        app: The endpoint.
        endpoint: Its name. Each is counted separately.
        resource: The protected server, which has the storage of the counters.
        branding: Title and logo of the pages.
        warned: The proxy that a warning has named, shared by all endpoints.
    """

    app: ASGIApp
    endpoint: str
    resource: ProtectedResource
    branding: Branding
    warned: set[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seconds, address = 0.0, client_address(scope)
        resource, endpoint, rate = self.resource, self.endpoint, _RATES[self.endpoint]
        if address is not None:
            key = f"{resource.name}/authority/{endpoint}/{digest_of(address)[:32]}"
            with suppress(OSError):
                seconds = await resource.storage.take_tokens(key, every=rate.every, burst=rate.burst)
        elif not self.warned and is_untrusted_proxy(scope):
            self.warned.add(scope["client"][0])
            logger.warning(
                "%s: rate limits are off for requests through the proxy %s, as the ASGI server does not trust its"
                " forwarding headers. Add the proxy to the trusted ones, as in uvicorn --forwarded-allow-ips",
                resource.name,
                scope["client"][0],
            )
        if not seconds:
            await self.app(scope, receive, send)
            return
        detail = f"too many requests to {endpoint}"
        resource.audit.emit("refusal", status=429, reason="too_many", detail=detail, caller=address)
        text = f"Too many requests from your address; try again in {math.ceil(seconds)} s"
        if endpoint in _PAGES:
            response: Response = page("Please wait", f"<p>{text}.</p>", 429, branding=self.branding)
        else:
            content = {"error": "temporarily_unavailable", "error_description": text}
            response = JSONResponse(content, 429, headers=NO_STORE)
        response.headers["Retry-After"] = str(math.ceil(seconds))
        await response(scope, receive, send)


class _AnyOrigin:
    """ASGI middleware that allows pages of any origin to read responses (CORS).

    The responses depend on no cookie, so a page reads no more than its own server could.

    Attributes:
        is_for_any_origin: Exempts the endpoint from the refusal of cross-origin requests.
    """

    is_for_any_origin = True

    def __init__(self, app: ASGIApp, methods: str) -> None:
        self._app = app
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "OPTIONS":
            headers = {
                "Access-Control-Allow-Origin": "*",
                "Access-Control-Allow-Methods": self._methods,
                "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
                "Vary": "Access-Control-Request-Headers",
            }
            if (requested := Headers(scope=scope).get("access-control-request-headers")) is not None:
                headers["Access-Control-Allow-Headers"] = requested
            await Response(status_code=204, headers=headers)(scope, receive, send)
            return

        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                headers = MutableHeaders(scope=message)
                headers["Access-Control-Allow-Origin"] = "*"
                headers["Access-Control-Expose-Headers"] = "Retry-After, WWW-Authenticate"
            await send(message)

        await self._app(scope, receive, add_headers)
