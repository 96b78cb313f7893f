"""Authorization server (OAuth 2.1): its endpoints, the end of logins, and verification of its tokens."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from ..._utils.concurrency import run_shielded
from ...identity.principals_and_scopes import Principal
from ...identity.principals_and_scopes import client as client_principal
from ...identity.principals_and_scopes import user as user_principal
from ...protocol import http_headers
from ...protocol.jsonrpc import Json
from ...storage.encryption_keys import UnreadableRecordError
from ..jws import parse_json_object
from ..jwt import read_audiences
from ..urls_and_discovery import authorization_server_urls
from ..verifier import AccessToken, InvalidTokenError, ProtectedResource, VerifierUnavailableError
from .consent_page import AuthorizationRequest, ConsentPage, read_authorization_request
from .grants import AccessTokens, GrantRecord, Grants, TokenReuseError
from .html_pages import LOGIN_LIFETIME, Branding, error_page
from .oauth_clients import (
    AUTH_METHODS,
    Client,
    ClientDocuments,
    Clients,
    Registration,
    host_of,
    is_local,
    with_parameters,
)
from .oauth_requests import (
    NO_STORE,
    Clock,
    OAuthError,
    Parameters,
    client_address,
    common_scopes,
    read_body,
    read_form,
    requested_resources,
    requested_scopes,
    restart_error,
)

CACHE_LIFETIME = 30.0
"""Seconds for which a verified token is cached, so that a revoked token stays valid no longer."""

TokenScope = tuple[tuple[str, ...], tuple[str, ...]]
"""Scopes and resources of an access token."""
Endpoint = Callable[[Request], Awaitable[Response]]


class AuthorizationServer(ABC):
    """Authorization server as OAuth 2.1 and MCP's authorization require it, and verifier of its tokens.

    A subclass identifies users and obtains their consent.

    Args:
        issuer: URL of the authorization server.
        resource: The protected server.
        grants: The grants.
        lifetime: Seconds for which an access token is valid.
        documents: Client ID metadata documents; None forbids them.
        clients: Preregistered clients.
        branding: Title and logo of the pages.
        user_issuer: Issuer of the user identities; None for the authorization server itself.
        clock: Returns the Unix time in seconds.

    Attributes:
        issuer: URL of the authorization server.
        resource: The protected server.
        clients: The clients.
        grants: The grants.
        consent: The consent page.
        branding: Title and logo of the pages.
        clock: Returns the Unix time in seconds.

    Raises:
        ImportError: The extra `auth` is not installed.
    """

    def __init__(
        self,
        issuer: str,
        resource: ProtectedResource,
        grants: Grants,
        lifetime: float,
        documents: ClientDocuments | None,
        clients: Iterable[Client],
        branding: Branding,
        user_issuer: str | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.issuer = issuer
        self.resource = resource
        self._registration = Registration(resource.keys, clock)
        self.clients = Clients(self._registration, documents, clients)
        self.grants = grants
        self._tokens = AccessTokens(issuer, resource.keys, lifetime, clock)
        self._tokens.key_set()  # so that a missing library is an error at the start, not at the first login
        self.consent = ConsentPage(issuer, resource, branding, clock)
        self.branding = branding
        self._user_issuer = user_issuer or issuer
        self.clock = clock

    def url(self, path: str) -> str:
        """Return the URL of an endpoint."""
        return self.issuer.rstrip("/") + path

    def metadata(self) -> dict[str, object]:
        """Return the metadata document (RFC 8414, section 2).

        All well-known URLs serve the same document. So it contains the members that OpenID Connect Discovery requires
        (section 3), although no ID tokens are issued.
        """
        own_grant = ["client_credentials"] if self.clients.have_own_scopes else []
        members: dict[str, object] = {
            "issuer": self.issuer,
            "authorization_endpoint": self.url("/authorize"),
            "token_endpoint": self.url("/token"),
            "registration_endpoint": self.url("/register"),
            "revocation_endpoint": self.url("/revoke"),
            "jwks_uri": self.url("/jwks.json"),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token", *own_grant],
            "token_endpoint_auth_methods_supported": list(AUTH_METHODS),
            "revocation_endpoint_auth_methods_supported": list(AUTH_METHODS),
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self.clients.documents is not None,
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "protected_resources": list(self.resource.resources),
        }
        if self.resource.scopes.table:
            members["scopes_supported"] = list(self.resource.scopes.table)
        return members

    def routes(self) -> list[Route]:
        """Return the endpoints, with paths from the root of the origin."""
        path = urlsplit(self.issuer).path.rstrip("/")
        metadata = [urlsplit(url).path for url in authorization_server_urls(self.issuer)]
        endpoints: list[tuple[str, Endpoint, str]] = [
            *((each, self._metadata_endpoint, "GET") for each in metadata),
            (f"{path}/authorize", self._authorization_endpoint, "GET"),
            (f"{path}/authorize", self.endpoint(self.answer_login, for_browsers=True), "POST"),
            (f"{path}/token", self.endpoint(self._token_endpoint), "POST"),
            (f"{path}/register", self.endpoint(self._registration_endpoint), "POST"),
            (f"{path}/revoke", self.endpoint(self._revocation_endpoint), "POST"),
            (f"{path}/jwks.json", self._key_endpoint, "GET"),
        ]
        return [Route(each, endpoint, methods=[method]) for each, endpoint, method in endpoints]

    def endpoint(self, respond: Endpoint, *, for_browsers: bool = False) -> Endpoint:
        """Return an endpoint whose errors become JSON responses for clients, or HTML pages for browsers."""

        async def endpoint(request: Request) -> Response:
            try:
                return await respond(request)
            except OAuthError as refusal:
                error = refusal
                self.audit_refusal(request, str(error), error.status)
            except (OSError, UnreadableRecordError):
                text, retry = "the server cannot read its store now; try again later", {"Retry-After": "5"}
                error = OAuthError("temporarily_unavailable", text, status=503, headers=retry)
            if for_browsers:
                return error_page(error.description, error.status, branding=self.branding)
            return error.response()

        return endpoint

    # Login, as a subclass implements it

    @abstractmethod
    async def begin_login(self, authorization: AuthorizationRequest, request: Request) -> Response:
        """Respond to the browser of a valid authorization request, with a page or a redirect."""

    @abstractmethod
    async def answer_login(self, request: Request) -> Response:
        """Respond to the form of that page.

        Raises:
            OAuthError: The form is not valid. The user sees an error page.
        """

    @abstractmethod
    async def authorize_refresh(self, record: GrantRecord) -> bool | Collection[str]:
        """Check whether a user may have new tokens. The refresh token is not used up yet.

        Args:
            record: The grant.

        Returns:
            True or False, or the maximum scopes until the next refresh.

        Raises:
            OAuthError: The check is not possible now. The refresh token stays valid.
        """

    def grant_created(self, record: GrantRecord) -> None:  # noqa: B027 - most logins keep no data
        """Handle a new grant with an issued code."""

    async def release(self, record: GrantRecord) -> None:  # noqa: B027 - most logins keep no data
        """Release the data of a grant that has ended or was not created. It is called once in all processes."""

    # Verification and revocation

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Verify an access token, and return its principal and validity.

        Raises:
            InvalidTokenError: The token was not issued here, has expired, was revoked, or has another audience.
            VerifierUnavailableError: The storage does not respond.
        """
        claims = self._tokens.read(token)
        if audience not in (read_audiences(claims["aud"]) or ()):
            raise InvalidTokenError("the token has another audience (aud)")
        try:
            record = await self.grants.find(str(claims["grant"]))
        except (OSError, UnreadableRecordError):
            raise VerifierUnavailableError(
                "the authorization server cannot read its stored grants. Check storage= and secret_key= of the server"
            ) from None
        if record is None:
            raise InvalidTokenError("the token has been revoked")
        principal = self.principal(record, str(claims["scope"]).split(), {**record.claims, **claims})
        issued, expires = (float(str(claims[name])) for name in ("iat", "exp"))
        return AccessToken(principal, expires, issued, min(expires, self.clock() + CACHE_LIFETIME))

    def principal(
        self, record: GrantRecord, scopes: Collection[str], claims: Mapping[str, object] | None = None
    ) -> Principal:
        """Return the principal of a grant: its user, or the client with the client credentials grant."""
        if record.subject is None:
            return client_principal(self.issuer, record.client_id, scopes, claims=claims or {})
        return user_principal(
            self._user_issuer, record.subject, scopes, client_id=record.client_id, claims=claims or {}
        )

    async def _end_grant(self, record: GrantRecord) -> None:
        """End a grant: invalidate its tokens, and release its data."""

        async def end() -> None:
            ended = await self.grants.end(record.id)
            if ended is not None:
                self.resource.audit.emit("revocation", self.principal(ended, ended.scopes))
                await self.release(ended)

        await run_shielded(end())

    # Authorization endpoint, and the end of logins

    async def _authorization_endpoint(self, request: Request) -> Response:
        try:
            parameters = Parameters(request.scope["query_string"])
            client = await self.clients.find(parameters.require("client_id"), client_address(request.scope))
            redirect_uri = client.redirect_uri(parameters.get("redirect_uri"))
        except OAuthError as error:
            # Without a known client and redirect URI, only the user can see the error.
            status = 503 if error.status == 503 else 400
            return error_page(error.description, status, branding=self.branding)
        try:
            state = parameters.get("state")
        except OAuthError:
            state = None
        try:
            authorization = read_authorization_request(
                client, redirect_uri, parameters, self.resource.scopes, self.resource.resources, self.clock()
            )
            return await self.begin_login(authorization, request)
        except OAuthError as error:
            members = {"error": error.error, "error_description": error.description}
            redirect = self._redirect(redirect_uri, state, members)
            if is_local(redirect_uri):
                return redirect
            # Any site may register as a client. So without consent, users are not redirected to another site
            # (RFC 9700, section 4.11.2).
            back = redirect.headers["location"], host_of(redirect_uri)
            return error_page(error.description, back=back, branding=self.branding)

    async def claim(self, authorization: AuthorizationRequest) -> None:
        """Mark a request as answered, before any step that must not run twice.

        Raises:
            OAuthError: The request was already answered, in this or another process.
        """
        # A login may take as long as the page.
        if not await self.grants.claim(authorization.id, 2 * LOGIN_LIFETIME):
            raise restart_error("this request was already answered")

    def new_record(
        self,
        authorization: AuthorizationRequest,
        subject: str,
        claims: Mapping[str, object],
        login_data: Json | None = None,
    ) -> GrantRecord:
        """Return a grant for `allow`.

        Args:
            authorization: The authorization request.
            subject: ID of the user.
            claims: Claims of the user.
            login_data: Data to store with the grant. `release` gets it when the grant has ended or was not created.
        """
        return GrantRecord(
            "",
            authorization.client_id,
            subject,
            tuple(authorization.scopes),
            tuple(authorization.resources),
            authorization.challenge,
            authorization.redirect_uri,
            claims=dict(claims),
            login_data=login_data,
        )

    async def allow(
        self, authorization: AuthorizationRequest, record: GrantRecord, scopes: Collection[str] | None
    ) -> Response:
        """Redirect the user to the client with a code, after `claim`.

        Args:
            authorization: The authorization request.
            record: The grant, with all requested scopes.
            scopes: Scopes that the user may have; None for all.

        Raises:
            OSError: The storage does not respond, and there is no grant.
        """
        all_scopes, table = record.scopes, self.resource.scopes
        granted = all_scopes if scopes is None else common_scopes(all_scopes, scopes, table)
        if all_scopes and not granted:
            await self.release(record)
            return self.refuse(authorization, "access_denied", "the user has none of these scopes")
        principal = self.principal(record, granted)
        record = replace(record, id=self.grants.new_id(principal), scopes=granted)
        try:
            code = await self.grants.begin(record)
        except BaseException:
            await self.release(record)
            raise
        self.grant_created(record)
        self.resource.audit.emit("login", principal, scopes=granted)
        return self._redirect(authorization.redirect_uri, authorization.state, {"code": code})

    def refuse(self, authorization: AuthorizationRequest, error: str, description: str) -> Response:
        """Redirect the user to the client with an error."""
        members = {"error": error, "error_description": OAuthError(error, description).description}
        return self._redirect(authorization.redirect_uri, authorization.state, members)

    def _redirect(self, redirect_uri: str, state: str | None, members: Mapping[str, str]) -> Response:
        """Redirect to a client with the parameter `iss`, by which it detects responses of other servers (RFC 9207)."""
        parameters = {**members, "iss": self.issuer}
        if state is not None:
            parameters["state"] = state
        headers = {**NO_STORE, "Referrer-Policy": "no-referrer"}
        return RedirectResponse(with_parameters(redirect_uri, parameters), 303, headers=headers)

    def audit_refusal(
        self, request: Request, detail: str, status: int = 403, principal: Principal | None = None
    ) -> None:
        """Write a refused request or failed login to the audit log.

        Args:
            request: The HTTP request.
            detail: The reason, without secrets.
            status: The HTTP status of the response.
            principal: The user, if known.
        """
        caller = client_address(request.scope)
        self.resource.audit.emit(
            "refusal", principal, status=status, reason="failed", detail=detail, caller=caller
        )

    # Token endpoint (OAuth 2.1, section 3.2)

    async def _token_endpoint(self, request: Request) -> Response:
        form = await read_form(request)
        form.check_repeated()
        client = await self.clients.authenticate(request, form)
        flows = {
            "authorization_code": self._redeem_code,
            "refresh_token": self._refresh,
            "client_credentials": self._client_credentials,
        }
        flow = flows.get(form.require("grant_type"))
        if flow is None:
            raise OAuthError("unsupported_grant_type", f"grant_type must be one of: {' '.join(flows)}")
        try:
            return await flow(client, form)
        except TokenReuseError as error:
            await self._end_grant(error.record)
            raise

    async def _redeem_code(self, client: Client, form: Parameters) -> Response:
        check = partial(self._token_scope, form)
        code, verifier = form.require("code"), form.require("code_verifier")
        record = await self.grants.redeem(code, client.id, verifier, form.get("redirect_uri"), check)
        refresh_token = self.grants.refresh_token(record) if client.uses_refresh_tokens else None
        return self._token_response(record, check(record), refresh_token)

    async def _refresh(self, client: Client, form: Parameters) -> Response:
        token, check = form.require("refresh_token"), partial(self._token_scope, form)
        # The token is used up only after all checks, so that the client can retry after a temporary failure.
        record, _, _ = await self.grants.find_refreshable(token, client.id, check)
        allowed = True if record.subject is None else await self.authorize_refresh(record)
        max_scopes = None
        if allowed is not True:
            max_scopes = common_scopes(record.scopes, allowed or (), self.resource.scopes)
        if allowed is False or (record.scopes and max_scopes == ()):
            await self._end_grant(record)
            raise OAuthError("invalid_grant", "the user no longer has access; log in again")
        scope = self._token_scope(form, record, max_scopes)
        record = await self.grants.refresh(token, client.id, check)
        self.resource.audit.emit("refresh", self.principal(record, record.scopes))
        return self._token_response(record, scope, self.grants.refresh_token(record))

    async def _client_credentials(self, client: Client, form: Parameters) -> Response:
        if client.scopes is None:
            raise OAuthError("unauthorized_client", "this client may not use the client_credentials grant")
        record = GrantRecord("", client.id, None, client.scopes, self.resource.resources)
        principal = self.principal(record, record.scopes)
        record = replace(record, id=self.grants.new_id(principal))
        response = self._token_response(record, self._token_scope(form, record))
        await self.grants.begin_for_client(record, self._tokens.lifetime)
        self.resource.audit.emit("login", principal, scopes=record.scopes)
        return response

    def _token_scope(
        self, form: Parameters, record: GrantRecord, max_scopes: tuple[str, ...] | None = None
    ) -> TokenScope:
        """Return the requested scopes and resources of a grant, or all of them if none are requested.

        Args:
            form: The token request.
            record: The grant.
            max_scopes: Scopes that the user has now; None for all granted ones.

        Raises:
            OAuthError: The request exceeds the grant, or the user has none of the scopes any more.
        """
        scopes = requested_scopes(form.get("scope"), self.resource.scopes)
        if not self.resource.scopes.expanded(record.scopes).issuperset(scopes):
            raise OAuthError("invalid_scope", "scope contains a scope that was not granted")
        scopes = scopes or record.scopes
        if max_scopes is not None and scopes:
            scopes = common_scopes(scopes, max_scopes, self.resource.scopes)
            if not scopes:
                raise OAuthError("invalid_scope", "the user no longer has any of these scopes")
        return scopes, requested_resources(form.resources(), record.resources)

    def _token_response(
        self, record: GrantRecord, scope: TokenScope, refresh_token: str | None = None
    ) -> Response:
        scopes, resources = scope
        content: dict[str, object] = {
            "access_token": self._tokens.issue(record, resources, scopes),
            "token_type": "Bearer",
            "expires_in": int(self._tokens.lifetime),
        }
        if scopes:
            content["scope"] = " ".join(scopes)
        if refresh_token is not None:
            content["refresh_token"] = refresh_token
        return JSONResponse(content, headers=NO_STORE)

    # Other endpoints

    async def _metadata_endpoint(self, _request: Request) -> Response:
        return JSONResponse(self.metadata())

    async def _key_endpoint(self, _request: Request) -> Response:
        return JSONResponse(self._tokens.key_set())

    async def _registration_endpoint(self, request: Request) -> Response:
        error = "invalid_client_metadata"
        if http_headers.media_type(request.headers.get("content-type", "")) != "application/json":
            raise OAuthError(error, "the body must be JSON (application/json)")
        body = await read_body(request, error)
        try:
            metadata = parse_json_object(body)
        except ValueError:
            raise OAuthError(error, "the body must be a JSON object") from None
        response = self._registration.register(metadata)
        principal = Principal(client_id=str(response["client_id"]), issuer=self.issuer)
        self.resource.audit.emit("registration", principal, caller=client_address(request.scope))
        return JSONResponse(response, 201, headers=NO_STORE)

    async def _revocation_endpoint(self, request: Request) -> Response:
        """Revoke the grant of a token of any kind, and with it all tokens of the grant (RFC 7009, section 2)."""
        form = await read_form(request)
        form.check_repeated()
        client = await self.clients.authenticate(request, form)
        token = form.require("token")
        record = await self.grants.find_by_refresh_token(token)
        if record is None:
            try:
                record = await self.grants.find(str(self._tokens.read(token)["grant"]))
            except InvalidTokenError:
                record = None
        if record is not None:
            if record.client_id != client.id:
                raise OAuthError("invalid_grant", "the token was issued to another client")
            await self._end_grant(record)
        return Response(status_code=200, headers=NO_STORE)
