"""Authorization server: its endpoints, and verification of its tokens."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from ...identity.principal import Principal
from ...protocol.jsonrpc import Json
from ...storage.encryption_keys import UnreadableRecordError
from ..audiences import audiences_of
from ..discovery import authorization_server_urls
from ..strict_json import read_object
from ..verifier import AccessToken, InvalidTokenError, VerifierUnavailableError
from .asked import LIFETIME, Asked, asked_by
from .callers import caller_of
from .client import METHODS
from .client_authentication import authenticated
from .errors import NOT_KEPT, OAuthError
from .grants import GrantRecord
from .login import Login
from .pages import error_page
from .parameters import body_of, is_json, of_form, of_query
from .parts import Parts
from .redirects import host_of, is_local, with_parameters
from .registration import Registration
from .token_endpoint import TokenEndpoint

FRESH = 30.0
"""Seconds for which a verified token is cached, so that a revoked token stays valid no longer."""

Answer = Callable[[Request], Awaitable[Response]]


class Authority:
    """Authorization server as OAuth 2.1 and MCP's authorization require it, and verifier of its tokens.

    Args:
        parts: Components of the authorization server.
        registration: Registration of clients.
        login: Login of users.
        clock: Returns the Unix time in seconds.
    """

    def __init__(
        self, parts: Parts, registration: Registration, login: Login, clock: Callable[[], float] = time.time
    ) -> None:
        self.parts = parts
        self._registration = registration
        self._login = login
        self._clock = clock
        self._tokens = TokenEndpoint(parts, login)

    def metadata(self) -> dict[str, object]:
        """Return the metadata document (RFC 8414, section 2).

        All well-known URLs serve the same document. So it contains the members that OpenID Connect Discovery requires
        (section 3), although no ID tokens are issued.
        """
        url, methods = self.parts.url, list(METHODS)
        own = ["client_credentials"] if self.parts.clients.may_ask_for_themselves else []
        found: dict[str, object] = {
            "issuer": self.parts.issuer,
            "authorization_endpoint": url("/authorize"),
            "token_endpoint": url("/token"),
            "registration_endpoint": url("/register"),
            "revocation_endpoint": url("/revoke"),
            "jwks_uri": url("/jwks.json"),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token", *own],
            "token_endpoint_auth_methods_supported": methods,
            "revocation_endpoint_auth_methods_supported": methods,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self.parts.clients.may_have_documents,
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "protected_resources": list(self.parts.resources),
        }
        if self.parts.scopes.table:
            found["scopes_supported"] = list(self.parts.scopes.table)
        return found

    def routes(self) -> list[Route]:
        """Return the endpoints, with paths from the root of the origin."""
        path = urlsplit(self.parts.issuer).path.rstrip("/")
        places = [urlsplit(url).path for url in authorization_server_urls(self.parts.issuer)]
        endpoints: list[tuple[str, Answer, list[str]]] = [
            *((place, self._metadata, ["GET"]) for place in places),
            (f"{path}/authorize", self._authorize, ["GET"]),
            (f"{path}/authorize", self.showing(partial(self._login.answer, self)), ["POST"]),
            (f"{path}/token", self._answering(self._tokens.answer), ["POST"]),
            (f"{path}/register", self._answering(self._register), ["POST"]),
            (f"{path}/revoke", self._answering(self._revoke), ["POST"]),
            (f"{path}/jwks.json", self._jwks, ["GET"]),
        ]
        return [Route(where, answer, methods=methods) for where, answer, methods in endpoints]

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Verify an access token, and return its principal and validity.

        Raises:
            InvalidTokenError: The token was not issued here, has expired, was revoked, or has another audience.
            VerifierUnavailableError: The storage does not respond.
        """
        claims = self.parts.tokens.read(token)
        if audience not in (audiences_of(claims["aud"]) or ()):
            raise InvalidTokenError("the token has another audience (aud)")
        try:
            record = await self.parts.grants.find(str(claims["grant"]))
        except (OSError, UnreadableRecordError):
            raise VerifierUnavailableError(
                "the authorization server cannot read its stored grants. Check storage= and "
                "secret_key= of the server"
            ) from None
        if record is None:
            raise InvalidTokenError("the token has been revoked")
        principal = self.parts.principal(record, str(claims["scope"]).split(), {**record.claims, **claims})
        issued, expires = (float(str(claims[name])) for name in ("iat", "exp"))
        return AccessToken(principal, expires, issued, min(expires, self._clock() + FRESH))

    async def claim(self, asked: Asked) -> None:
        """Mark a request as answered.

        Raises:
            OAuthError: The request was already answered.
        """
        if not await self.parts.grants.claim(asked.id, 2 * LIFETIME):  # a login may take as long as the page
            raise OAuthError(
                "invalid_request", "this request was already answered; start the login again in the client"
            )

    async def allowed(
        self,
        asked: Asked,
        subject: str,
        scopes: Collection[str] | None,
        claims: Mapping[str, object],
        held: Json | None = None,
    ) -> Response:
        """Redirect the user to the client with a code, at the end of a login."""
        parts = self.parts
        granted = asked.scopes if scopes is None else parts.granted(asked.scopes, scopes)
        record = GrantRecord(
            "",
            asked.client_id,
            subject,
            tuple(granted),
            tuple(asked.resources),
            asked.challenge,
            asked.redirect_uri,
            claims=dict(claims),
            held=held,
        )
        principal = parts.principal(record, granted)
        if asked.scopes and not granted:
            await parts.forget(record)
            return self.refused(asked, "access_denied", "the user has none of these scopes")
        begun = replace(record, id=parts.grants.new_id(principal))
        try:
            code = await parts.grants.begin(begun)
        except BaseException:
            await parts.forget(record)
            raise
        if parts.keeper is not None:
            parts.keeper.begun(begun)
        parts.audit.emit("login", principal, scopes=granted)
        return self._sent_back(asked.redirect_uri, asked.state, {"code": code})

    def refused(self, asked: Asked, error: str, description: str) -> Response:
        """Redirect the user to the client with an error."""
        said = {"error": error, "error_description": OAuthError(error, description).description}
        return self._sent_back(asked.redirect_uri, asked.state, said)

    async def _authorize(self, request: Request) -> Response:
        try:
            parameters = of_query(request)
            client = await self.parts.clients.find(parameters.require("client_id"), caller_of(request.scope))
            redirect_uri = client.redirect_uri(parameters.get("redirect_uri"))
        except OAuthError as error:  # there is no client that could be trusted to hear of it
            return self._page(error.description, 503 if error.status == 503 else 400)
        try:
            state = parameters.get("state")
        except OAuthError:
            state = None
        try:
            asked = asked_by(client, redirect_uri, parameters, self.parts, self._clock)
            return await self._login.ask(self, asked, request)
        except OAuthError as error:
            said = {"error": error.error, "error_description": error.description}
            back = self._sent_back(redirect_uri, state, said)
            if is_local(redirect_uri):
                return back
            # Anybody may be a client: without a user's word nobody is sent elsewhere (RFC 9700, section 4.11.2).
            return self._page(error.description, back=(back.headers["location"], host_of(redirect_uri)))

    def _page(self, description: str, status: int = 400, *, back: tuple[str, str] | None = None) -> Response:
        return error_page(description, status, back=back, look=self.parts.look)

    def _sent_back(self, redirect_uri: str, state: str | None, said: Mapping[str, str]) -> Response:
        """Redirect to a client with the parameter `iss`, by which it detects responses of other servers (RFC 9207)."""
        parameters = [*said.items(), ("iss", self.parts.issuer)]
        if state is not None:
            parameters.append(("state", state))
        headers = {**NOT_KEPT, "Referrer-Policy": "no-referrer"}
        return RedirectResponse(with_parameters(redirect_uri, parameters), 303, headers=headers)

    async def _metadata(self, _request: Request) -> Response:
        return JSONResponse(self.metadata())

    async def _jwks(self, _request: Request) -> Response:
        return JSONResponse(self.parts.tokens.key_set())

    async def _register(self, request: Request) -> Response:
        error = "invalid_client_metadata"
        if not is_json(request):
            raise OAuthError(error, "the body must be JSON (application/json)")
        body = await body_of(request, error)
        try:
            metadata = read_object(body)
        except ValueError:
            raise OAuthError(error, "the body must be a JSON object") from None
        answer = self._registration.register(metadata)
        whose = Principal(client_id=str(answer["client_id"]), issuer=self.parts.issuer)
        self.parts.audit.emit("registration", whose, caller=caller_of(request.scope))
        return JSONResponse(answer, 201, headers=NOT_KEPT)

    async def _revoke(self, request: Request) -> Response:
        """Revoke the grant of a token of any kind, and with it all tokens of the grant (RFC 7009, section 2)."""
        form = await of_form(request)
        form.check()
        client = await authenticated(request, form, self.parts.clients)
        token, grants = form.require("token"), self.parts.grants
        record = await grants.of_refresh_token(token)
        if record is None:
            try:
                record = await grants.find(str(self.parts.tokens.read(token)["grant"]))
            except InvalidTokenError:
                record = None
        if record is not None:
            if record.client_id != client.id:
                raise OAuthError("invalid_grant", "the token was issued to another client")
            await self.parts.end(record)
        return Response(status_code=200, headers=NOT_KEPT)

    def showing(self, endpoint: Answer) -> Answer:
        """Wrap an endpoint so that errors become HTML pages for users."""

        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except OAuthError as error:
                self.failed(request, str(error), error.status)
                return self._page(error.description, error.status)
            except (OSError, UnreadableRecordError):
                return self._page("the server cannot read its store now; try again later", 503)

        return answer

    def _answering(self, endpoint: Answer) -> Answer:
        """Wrap an endpoint so that errors become JSON responses for clients."""

        async def answer(request: Request) -> Response:
            try:
                return await endpoint(request)
            except OAuthError as error:
                self.failed(request, str(error), error.status)
                return error.answer()
            except (OSError, UnreadableRecordError):
                description = "the server cannot read its store now; try again later"
                return OAuthError(
                    "temporarily_unavailable", description, status=503, headers={"Retry-After": "5"}
                ).answer()

        return answer

    def failed(
        self, request: Request, detail: str, status: int = 403, principal: Principal | None = None
    ) -> None:
        """Write a refused request to the audit log."""
        self.parts.audit.emit(
            "refusal",
            principal,
            status=status,
            reason="failed",
            detail=detail,
            caller=caller_of(request.scope),
        )
