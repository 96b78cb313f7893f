"""Authorization requests of clients, the consent page for them, bound to its browser, and remembered consents."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from html import escape
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from ...identity.audit_and_revocation import Revocations
from ...identity.principals_and_scopes import Principal, Scopes, digest_of, user
from ...protocol import http_headers
from ..verifier import ProtectedResource
from .html_pages import LOGIN_LIFETIME, Branding, LoginCookies, new_login_id, page, set_cookie
from .oauth_clients import Client, host_of, is_local, is_registration, is_web
from .oauth_requests import (
    Clock,
    OAuthError,
    Parameters,
    read_form,
    requested_resources,
    requested_scopes,
    restart_error,
    seal,
    unseal,
)

DENY = "Do not allow it"
"""Label of the button to deny."""

_PURPOSE = "OAuth authorization request"
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_MAX_PAGES = 10
"""Maximum open pages of one browser. Otherwise a site could open pages until the cookie header is too long."""
_WARNING = (
    '<p class="note"><strong>Have you just started this yourself?</strong> Any program on this device may pretend to '
    "be another one. If you came here by a link, or do not know why you are here, do not allow it.</p>"
)


@dataclass(frozen=True)
class AuthorizationRequest:
    """A checked authorization request (RFC 6749, section 4.1.1).

    Attributes:
        client_id: Client that sent it.
        client_name: Name that the client gave itself.
        redirect_uri: Redirect URI.
        state: The `state` parameter.
        challenge: The PKCE challenge.
        scopes: Requested scopes.
        resources: Requested resources.
        expires: Unix time in seconds at which the request expires.
        id: ID of the request.
        nonce: Binds the request to the browser that received the page.
    """

    client_id: str
    client_name: str
    redirect_uri: str
    state: str | None
    challenge: str
    scopes: Sequence[str]
    resources: Sequence[str]
    expires: float
    id: str = field(default_factory=new_login_id)
    nonce: str = field(default_factory=partial(secrets.token_urlsafe, 16))


def read_authorization_request(
    client: Client,
    redirect_uri: str,
    parameters: Parameters,
    scopes: Scopes,
    resources: tuple[str, ...],
    now: float,
) -> AuthorizationRequest:
    """Check an authorization request (RFC 6749, section 4.1.1; RFC 7636, section 4.3; RFC 8707, section 2).

    Args:
        client: The client.
        redirect_uri: The checked redirect URI.
        parameters: Parameters of the request.
        scopes: Scopes of the server.
        resources: Resources of the server.
        now: Current Unix time in seconds.

    Raises:
        OAuthError: The request is not valid. The error may be sent to the redirect URI.
    """
    parameters.check_repeated()
    if parameters.require("response_type") != "code":
        raise OAuthError("unsupported_response_type", "response_type must be code")
    if parameters.get("response_mode") not in {None, "query"}:
        raise OAuthError("invalid_request", "response_mode must be query")
    for name in ("request", "request_uri"):
        if parameters.get(name) is not None:
            raise OAuthError(f"{name}_not_supported", f"{name} is not supported")
    challenge = parameters.get("code_challenge")
    if challenge is None or parameters.get("code_challenge_method") != "S256":
        raise OAuthError(
            "invalid_request", "PKCE is required: code_challenge with code_challenge_method S256"
        )
    if not _CHALLENGE.fullmatch(challenge):
        raise OAuthError("invalid_request", "code_challenge must be a SHA-256 hash in base64url")
    return AuthorizationRequest(
        client.id,
        client.name,
        redirect_uri,
        parameters.get("state"),
        challenge,
        requested_scopes(parameters.get("scope"), scopes) or scopes.defaults,
        requested_resources(parameters.resources(), resources),
        now + LOGIN_LIFETIME,
    )


class ConsentPage:
    """Consent page for authorization requests.

    The form contains the encrypted request, so nothing is stored for users that never answer. The request contains a
    nonce that is also in a cookie. So no other site, and no other browser with the form, can answer for the user.

    Args:
        issuer: URL of the authorization server.
        resource: The protected server.
        branding: Title and logo of the server.
        clock: Returns the Unix time in seconds.
    """

    def __init__(
        self, issuer: str, resource: ProtectedResource, branding: Branding, clock: Clock = time.time
    ) -> None:
        self._issuer = issuer
        self._resource = resource
        self._branding = branding
        self._clock = clock
        is_secure = issuer.startswith("https:")
        path = "/" if is_secure else f"{urlsplit(issuer).path.rstrip('/')}/authorize"
        self._cookies = LoginCookies("mcpkit-", _MAX_PAGES, is_secure=is_secure, path=path)

    def show(
        self, authorization: AuthorizationRequest, forms: str, request: Request, *, status: int = 200
    ) -> Response:
        """Return the page for a request.

        Args:
            authorization: The authorization request.
            forms: The forms as HTML, each with `hidden_field(authorization)`.
            request: The HTTP request. The oldest open pages of its browser are discarded if there are too many.
            status: The HTTP status.
        """
        title = self._branding.title or self._resource.name
        uri, client_id = authorization.redirect_uri, authorization.client_id
        name, host = escape(authorization.client_name), escape(host_of(uri))
        if client_id.startswith("https:"):
            source = f"<b>{escape(host_of(client_id))}</b> vouches for that name"
        elif is_registration(client_id):
            source = "The application chose this name; it is not verified"
        else:
            source = "The operator of this server vouches for that name"
        target = (
            "A program on this device"
            if is_web(uri)
            else f"The program that opens {host} links on this device"
        )
        if not is_local(uri):
            target = "The operator of that site will be able to act in your name"
        table = self._resource.scopes.table
        items = "".join(
            f"<li>{escape(table[scope].description)} <small>({escape(scope)})</small></li>"
            if scope in table
            else f"<li>{escape(scope)}</li>"
            for scope in authorization.scopes
        )
        effect = f"<p>If you allow it, it may use {escape(title)} in your name.</p>"
        if items:
            effect = (
                f"<p>If you allow it, it may do this at {escape(title)} in your name:</p><ul>{items}</ul>"
            )
        body = (
            f"<dl><div><dt>Application</dt><dd><strong><bdi>{name}</bdi></strong><small>{source}</small></dd></div>"
            f'<div><dt>Sends you back to</dt><dd><strong class="host">{host}</strong>'
            f"<small>{target}</small></dd></div></dl>{effect}{_WARNING if is_local(uri) else ''}{forms}"
        )
        # The untrusted name is in quotes, with isolated text direction.
        heading = f"Allow \u201c\u2068{authorization.client_name}\u2069\u201d to use {title}?"
        response = page(heading, body, status, branding=self._branding)
        self._cookies.set(authorization.id, authorization.nonce, request, response)
        return response

    def hidden_field(self, authorization: AuthorizationRequest) -> str:
        """Return the hidden form field that identifies the request, as HTML."""
        value = seal(self._resource.keys, _PURPOSE, asdict(authorization))
        return f'<input type="hidden" name="request" value="{value}">'

    def form(self, authorization: AuthorizationRequest, fields: str) -> str:
        """Return a form with the field `answer`, which is `allow` or `deny`.

        Args:
            authorization: The authorization request.
            fields: HTML above the buttons.
        """
        return (
            f'<form method="post">{self.hidden_field(authorization)}{fields}'
            '<button class="go" name="answer" value="allow">Allow it</button>'
            f'<button name="answer" value="deny">{DENY}</button></form>'
        )

    async def read_answer(self, request: Request) -> tuple[AuthorizationRequest, Parameters]:
        """Return the authorization request that a form answers, and the parameters of the form.

        Raises:
            OAuthError: The form was not sent by the browser that received it.
        """
        origin = request.headers.get("origin")
        if origin is not None and not http_headers.is_same_origin(origin, request.headers.get("host", "")):
            raise restart_error("the form was sent by a page of another site", 403)
        form = await read_form(request)
        members = unseal(self._resource.keys, _PURPOSE, form.require("request"))
        authorization = None if members is None else AuthorizationRequest(**members)
        if authorization is None or self._clock() >= authorization.expires:
            raise restart_error("this form has expired or is not valid")
        cookie = self._cookies.get(authorization.id, request)
        if not hmac.compare_digest(cookie.encode(), authorization.nonce.encode()):
            raise restart_error("the form was shown to another browser, or cookies are off", 403)
        if (answer := form.get("answer")) is not None:
            self.audit(authorization, "allowed" if answer == "allow" else "denied")
        return authorization, form

    def audit(self, authorization: AuthorizationRequest, answer: str) -> None:
        """Write the answer of a user to the audit log. `read_answer` does that if the form has an `answer`.

        Args:
            authorization: The authorization request.
            answer: `allowed`, `denied`, or `remembered` if the page was skipped.
        """
        principal = Principal(client_id=authorization.client_id, issuer=self._issuer)
        detail = f"{answer}, to {host_of(authorization.redirect_uri)}"
        self._resource.audit.emit("consent", principal, detail=detail, scopes=authorization.scopes)


# Cookie of remembered consents: in the browser of the user, and used only if that is safe.
#
# The consent page is skipped only under all of these conditions:
#
# - The user chose it on the page, in this browser, within 30 days, and the same user returns from the provider. Another
#   user of the browser sees the page, and so does a user after `server.revoke`.
# - The client registered itself, so its ID is known to one installation of one program. A metadata document belongs to
#   all users of a client: an attacker with that client could use a consent given to it elsewhere.
# - The redirect URI leads to a program on this machine, and is the same except for the port. A site can change owners.
# - The request names the same resources, and no more scopes, including the scopes that these imply today. An attacker's
#   server that names this authorization server as its own makes a client request another resource, or none.
# - A program opened the request, not a page: `Sec-Fetch-Site: none`, which pages cannot send. Otherwise a link, form,
#   frame or window of another site could log users in without their knowledge.

REMEMBER_FIELD = "remember"
"""Form field to remember the consent of a user."""
CONSENT_LIFETIME = 30 * 24 * 3600.0
"""Seconds for which a consent is valid, from the page on. Skipping the page does not extend it."""
MAX_CONSENTS = 8
"""Maximum consents in a browser. The oldest is dropped."""
MAX_CONSENT_COOKIE = 3800
"""Maximum characters of their cookie. The oldest consents are dropped."""

_CONSENT_PURPOSE = "OAuth remembered consent"
_NAVIGATION = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
"""Fetch metadata headers of a top-level navigation that no page has caused."""
_SPECULATIVE = ("sec-purpose", "purpose")
"""Headers of requests that browsers send before a navigation of the user."""


@dataclass(frozen=True)
class _Consent:
    """A consent of a user.

    Attributes:
        client: Digest of the client ID.
        target: Digest of client ID, redirect URI and resources.
        scopes: The scopes, with the implied ones.
        user: Digest of the user.
        expires: Unix time in seconds at which the consent expires.
    """

    client: str
    target: str
    scopes: Sequence[str]
    user: str
    expires: float


class ConsentCookie:
    """Encrypted cookie of a browser with the remembered consents of its users, which are stored nowhere else.

    Args:
        issuer: The authorization server.
        user_issuer: Issuer of the user identities.
        resource: The protected server.
        clock: Returns the Unix time in seconds.
    """

    def __init__(
        self, issuer: str, user_issuer: str, resource: ProtectedResource, clock: Clock = time.time
    ) -> None:
        self._issuer = issuer
        self._user_issuer = user_issuer
        self._scopes = resource.scopes
        self._keys = resource.keys
        self._revocations = Revocations(resource.storage, resource.name)
        self._clock = clock
        self._is_secure = issuer.startswith("https:")
        self._cookie = f"{'__Host-' if self._is_secure else ''}mcpkit-remembered-{digest_of(issuer)[:8]}"

    def is_possible(self, authorization: AuthorizationRequest) -> bool:
        """Return True if the consent to this client can be remembered."""
        uri = authorization.redirect_uri
        return is_registration(authorization.client_id) and is_web(uri) and is_local(uri)

    def find(self, authorization: AuthorizationRequest, request: Request) -> str | None:
        """Return time and user of a consent that covers a request; None if the page must be shown.

        The value is for `is_valid`, after the user returns from the provider.

        Args:
            authorization: The authorization request.
            request: The HTTP request.
        """
        headers = request.headers
        if (
            not self.is_possible(authorization)
            or any(headers.get(name) != value for name, value in _NAVIGATION.items())
            or any(name in headers for name in _SPECULATIVE)
            or not any(request.query_params.getlist("resource"))
        ):
            return None
        scopes, target = self._scopes.expanded(authorization.scopes), _target(authorization)
        for each in self._read(request):
            if each.target == target and scopes.issubset(each.scopes):
                return f"{each.expires - CONSENT_LIFETIME!r} {each.user}"
        return None

    async def is_valid(self, consent: str, subject: str) -> bool:
        """Return True if a consent is of the user that returns, and the access of the user was not revoked since.

        Args:
            consent: Time and user of the consent.
            subject: The user.

        Raises:
            OSError: The storage does not respond.
        """
        since, _, digest = consent.partition(" ")
        if digest != self._user_digest(subject):
            return False
        revoked = await self._revocations.latest(str(user(self._user_issuer, subject, ()).id))
        return revoked < float(since)

    def remember(
        self, authorization: AuthorizationRequest, subject: str, request: Request, response: Response
    ) -> None:
        """Store a consent in the cookie of the response.

        Args:
            authorization: The allowed authorization request.
            subject: The user.
            request: The HTTP request.
            response: The response to it.
        """
        if not self.is_possible(authorization):
            return
        new = _Consent(
            _digest(authorization.client_id),
            _target(authorization),
            sorted(self._scopes.expanded(authorization.scopes)),
            self._user_digest(subject),
            self._clock() + CONSENT_LIFETIME,
        )
        consents = [new, *(each for each in self._read(request) if each.target != new.target)][:MAX_CONSENTS]
        while consents and len(self._seal(consents)) > MAX_CONSENT_COOKIE:
            consents.pop()
        if consents:
            self._write(consents, response)

    def forget(self, client_id: str, request: Request, response: Response) -> None:
        """Remove the consents to a client from the cookie of the response.

        Args:
            client_id: The client.
            request: The HTTP request.
            response: The response to it.
        """
        consents = self._read(request)
        others = [each for each in consents if each.client != _digest(client_id)]
        if len(others) < len(consents):
            self._write(others, response)

    def _user_digest(self, subject: str) -> str:
        return _digest(f"{self._user_issuer}\n{subject}")

    def _read(self, request: Request) -> list[_Consent]:
        """Return the consents in the cookie of a request, the newest first."""
        members = unseal(self._keys, _CONSENT_PURPOSE, request.cookies.get(self._cookie, ""), self._issuer)
        try:
            consents = [_Consent(**each) for each in members or ()]
        except TypeError:  # another version of mcpkit wrote other members
            return []
        now = self._clock()
        return [each for each in consents if now < each.expires]

    def _write(self, consents: list[_Consent], response: Response) -> None:
        """Set the cookie, or delete it if there is no consent."""
        value = self._seal(consents) if consents else ""
        set_cookie(response, self._cookie, value, CONSENT_LIFETIME, is_secure=self._is_secure)

    def _seal(self, consents: list[_Consent]) -> str:
        return seal(self._keys, _CONSENT_PURPOSE, [asdict(each) for each in consents], self._issuer)


def _digest(text: str) -> str:
    return digest_of(text)[:32]


def _target(authorization: AuthorizationRequest) -> str:
    """Return the digest of a client, its redirect URI without the port, and its resources."""
    uri = urlsplit(authorization.redirect_uri)
    where = [uri.scheme, uri.hostname, uri.path, uri.query]
    return _digest(json.dumps([authorization.client_id, where, sorted(authorization.resources)]))
