"""Token endpoint: exchanges codes, refresh tokens and client credentials for access tokens (OAuth 2.1, 3.2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .client import Client
from .client_authentication import authenticated
from .errors import NOT_KEPT, OAuthError
from .grants import GrantRecord, UsedAgainError
from .login import Login
from .parameters import Parameters, of_form
from .parts import Parts


class TokenEndpoint:
    """Token endpoint of an authorization server.

    Args:
        parts: Components of the authorization server.
        login: Checks users at a refresh.
    """

    def __init__(self, parts: Parts, login: Login) -> None:
        self._parts = parts
        self._login = login
        self._types: dict[str, Callable[[Client, Parameters], Awaitable[Response]]] = {
            "authorization_code": self._code,
            "refresh_token": self._refresh,
            "client_credentials": self._client,
        }

    async def answer(self, request: Request) -> Response:
        """Respond to a token request.

        Raises:
            OAuthError: No token is issued.
        """
        form = await of_form(request)
        form.check()
        client = await authenticated(request, form, self._parts.clients)
        answer = self._types.get(form.require("grant_type"))
        if answer is None:
            raise OAuthError("unsupported_grant_type", f"grant_type must be one of: {' '.join(self._types)}")
        try:
            return await answer(client, form)
        except UsedAgainError as error:
            await self._parts.end(error.record)
            raise

    async def _code(self, client: Client, form: Parameters) -> Response:
        code, verifier = form.require("code"), form.require("code_verifier")
        record = await self._parts.grants.redeem(
            code,
            client.id,
            verifier,
            form.get("redirect_uri"),
            lambda record: self._wanted(record, form),
        )
        return self._issued(
            record, form, self._parts.grants.refresh_token(record) if client.is_refreshing else None
        )

    async def _refresh(self, client: Client, form: Parameters) -> Response:
        grants, token = self._parts.grants, form.require("refresh_token")

        def check(record: GrantRecord) -> object:
            return self._wanted(record, form)

        # What cannot be said now leaves the token as good as it was.
        record = await grants.refreshable(token, client.id, check)
        may = True if record.subject is None else await self._login.may_go_on(record)
        at_most = None if may is True else self._parts.granted(record.scopes, may or ())
        if may is False or (record.scopes and at_most == ()):
            await self._parts.end(record)
            raise OAuthError("invalid_grant", "the user no longer has access; log in again")
        self._wanted(record, form, at_most)
        record = await grants.refresh(token, client.id, check)
        self._parts.audit.emit("refresh", self._parts.principal(record, record.scopes))
        return self._issued(record, form, grants.refresh_token(record), at_most)

    async def _client(self, client: Client, form: Parameters) -> Response:
        if client.scopes is None:
            raise OAuthError("unauthorized_client", "this client may not use the client_credentials grant")
        record = GrantRecord("", client.id, None, client.scopes, self._parts.resources)
        principal = self._parts.principal(record, record.scopes)
        record = replace(record, id=self._parts.grants.new_id(principal))
        response = self._issued(record, form)
        await self._parts.grants.begin_for_client(record, self._parts.tokens.lifetime)
        self._parts.audit.emit("login", principal, scopes=record.scopes)
        return response

    def _issued(
        self,
        record: GrantRecord,
        form: Parameters,
        refresh_token: str | None = None,
        at_most: tuple[str, ...] | None = None,
    ) -> Response:
        """Return the response with the tokens of a grant, for the requested scopes and resources."""
        parts = self._parts
        scopes, resources = self._wanted(record, form, at_most)
        answer: dict[str, object] = {
            "access_token": parts.tokens.issue(
                record.subject or record.client_id, record.client_id, resources, scopes, record.id
            ),
            "token_type": "Bearer",
            "expires_in": int(parts.tokens.lifetime),
        }
        if scopes:
            answer["scope"] = " ".join(scopes)
        if refresh_token is not None:
            answer["refresh_token"] = refresh_token
        return JSONResponse(answer, headers=NOT_KEPT)

    def _wanted(
        self, record: GrantRecord, form: Parameters, at_most: tuple[str, ...] | None = None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the requested scopes and resources of a grant.

        Args:
            record: The grant.
            form: The request.
            at_most: Scopes that the user has now; None for all granted ones.

        Raises:
            OAuthError: The request exceeds the grant, or the user has none of the scopes any more.
        """
        named = self._parts.narrowed(form.get("scope"), record.scopes)
        scopes = named if at_most is None else self._parts.granted(named, at_most)
        if named and not scopes:
            raise OAuthError("invalid_scope", "the user no longer has any of these scopes")
        return scopes, self._parts.resources_of(form.all("resource"), record.resources)
