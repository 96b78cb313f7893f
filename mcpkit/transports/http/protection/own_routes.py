"""Protection of custom routes with the access tokens of the MCP endpoint."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from ....protocol.revisions import LATEST
from ..exchange import RefusedError, headers_by_name, refuse
from ..statuses import headers_of
from .endpoint import Endpoint


class Protected:
    """ASGI middleware that requires an access token with scopes.

    Args:
        app: The ASGI app, which finds the principal in `request.state.principal`.
        endpoint: Endpoint that verifies the tokens.
        scopes: Required scopes; empty for any valid token.
    """

    def __init__(self, app: ASGIApp, endpoint: Endpoint, scopes: tuple[str, ...]) -> None:
        self._app, self._endpoint, self._scopes = app, endpoint, scopes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or respond with a challenge."""
        headers = headers_by_name(scope)
        try:
            grant = self._endpoint.known(headers) or await self._endpoint.admit(
                headers, scope.get("client"), may_be_anybody=False
            )
        except RefusedError as error:
            await refuse(send, error.status, error.text, error.headers)
            return
        if not grant.principal.scopes.issuperset(self._scopes):
            challenge = self._endpoint.challenge(self._scopes, grant.principal, LATEST)
            await refuse(send, challenge.status, challenge.message, headers_of(challenge))
            return
        await self._app(
            {**scope, "state": {**scope.get("state", {}), "principal": grant.principal}}, receive, send
        )
