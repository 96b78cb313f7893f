"""Credentials of a client that was registered by hand: a secret, a private key or an assertion."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...protocol.jsonrpc import Json
from .client_authentication import by_method, method_for
from .grant_context import GrantContext
from .presented import Presented, PresentedToken
from .private_key_jwt import ForeignAssertion, PrivateKeyJwt, SigningKey
from .roles import ClientAuthentication


class Credentials:
    """Credentials of a registered client: exactly one of secret, private key and assertion.

    Args:
        client_id: The client id.
        secret: The client secret.
        private_key: The private key that signs assertions.
        assertion: A JWT from another issuer.
        issuer: The authorization server that has registered the client.
        algorithm: The algorithm of the signature.
        key_id: The `kid` of the key.
        audience: The `aud` of assertions.

    Raises:
        ValueError: None or several of them are given; or `issuer` is missing.
    """

    def __init__(
        self,
        client_id: str,
        *,
        secret: str | None,
        private_key: str | Path | Json | None,
        assertion: PresentedToken | None = None,
        issuer: str | None,
        algorithm: str | None,
        key_id: str | None,
        audience: str | None,
    ) -> None:
        if not client_id:
            raise ValueError(
                "client_id is empty. Pass the client ID that the authorization server has issued"
            )
        if sum(each is not None for each in (secret, private_key, assertion)) != 1:
            raise ValueError("pass exactly one of secret=, private_key= and assertion=")
        if issuer is None and (private_key is None or audience is not None):
            raise ValueError(
                "issuer= is missing. Pass the issuer of the authorization server that registered the client: without"
                " it, any authorization server that an MCP server names would get the credentials"
            )
        if private_key is None and (algorithm, key_id, audience) != (None, None, None):
            raise ValueError("algorithm=, key_id= and audience= require private_key=")
        self.client_id: Final = client_id
        self._secret = secret
        self._assertion: ClientAuthentication | None = None
        if private_key is not None:
            self._assertion = PrivateKeyJwt(client_id, SigningKey(private_key, algorithm, key_id), audience)
        elif assertion is not None:
            self._assertion = ForeignAssertion(client_id, Presented("assertion=", assertion))

    def authentication(self, context: GrantContext) -> ClientAuthentication:
        """Return the client authentication for the token endpoint."""
        if self._assertion is not None:
            return self._assertion
        return by_method(method_for(self._secret, context.server), self.client_id, self._secret)
