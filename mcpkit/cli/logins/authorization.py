"""What says who asks a server at which somebody has logged in, or is to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.http_client import create_client
from ...client.auth.authorization_server_client import AuthorizationFailedError
from ...client.auth.client_authentication import TokenRequest, by_method, method_for
from ...client.auth.file_tokens import FileTokens
from ...client.auth.keyring_tokens import default_storage
from ...client.auth.login_callback import Browser, RedirectReceiver
from ...client.auth.oauth import OAuth
from ...client.auth.token_storage import MemoryTokens, Tokens, TokenStorage
from ...protocol.jsonrpc import Json
from .known import Login, folder, login_at, note

if TYPE_CHECKING:
    import httpx2


def storage() -> TokenStorage:
    """Return where tokens are kept: the keyring of the system, where there is one, else a file of the user's own."""
    found = default_storage()
    return FileTokens(folder() / "tokens") if isinstance(found, MemoryTokens) else found


def authorized(
    login: Login, *, may_ask: bool = True, browser: Browser | None = None, is_anew: bool = False
) -> OAuth:
    """Return what says who asks a server, logs in there, and takes note of it.

    Args:
        login: How.
        may_ask: Whether somebody may be asked to log in, where no tokens are kept that are good.
        browser: What shows pages; None for the browser of the system.
        is_anew: Whether the user is asked even where tokens are kept.
    """
    kept = _Noted(storage(), login, is_anew=is_anew)
    return OAuth(
        client_id=login.client_id,
        issuer=login.issuer,
        client_metadata_url=login.client_metadata_url,
        authentication=_KeptSecret(login, kept) if login.has_secret else None,
        scopes=login.scopes,
        storage=kept,
        browser=browser if may_ask else _Nobody(login.url),
        dpop=login.has_key,
    )


async def token_at(url: str) -> str | None:
    """Return the token for a server, renewed where it has to be and can be.

    None where nobody has logged in there, and where it takes more than the token to ask, as where it is bound to a key.

    Raises:
        AuthorizationFailedError: It cannot be renewed, and has ended.
    """
    login = login_at(url)
    if login is None:
        return None
    http = create_client(login.url)
    async with http:
        tokens = await authorized(login, may_ask=False).authorizer(login.url).current(Sender(http))
    return tokens.access_token if tokens is not None and tokens.token_type == "Bearer" else None


@dataclass
class Sender:
    """Sends requests to authorization servers by a client of httpx2."""

    client: httpx2.AsyncClient
    own_headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def for_others(self) -> httpx2.AsyncClient:
        """Return the client."""
        return self.client


async def keep_secret(login: Login, secret: str) -> None:
    """Keep the secret of a client that was registered by hand."""
    await storage().save(_secret_name(login), {"version": 1, "secret": secret})


async def forget_secret(login: Login) -> None:
    """Keep it no longer."""
    await storage().remove(_secret_name(login))


def _secret_name(login: Login) -> str:
    return f"secret {login.url} {login.client_id}"


class _Noted(TokenStorage):
    """Keeps tokens where another storage does, and takes note of each login."""

    def __init__(self, inner: TokenStorage, login: Login, *, is_anew: bool) -> None:
        self._inner = inner
        self._login = login
        self._is_anew = is_anew

    async def load(self, name: str) -> Json | None:
        return await self._inner.load(name)

    async def save(self, name: str, record: Json) -> None:
        await self._inner.save(name, record)

    async def remove(self, name: str) -> None:
        await self._inner.remove(name)

    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        return self._inner.lock(name)

    async def get_tokens(self, resource: str, client: str = "") -> Tokens | None:
        return None if self._is_anew else await super().get_tokens(resource, client)

    async def set_tokens(self, tokens: Tokens, client: str = "") -> None:
        await super().set_tokens(tokens, client)
        self._is_anew = False
        note(self._login)


class _KeptSecret:
    """Says who a client is by a secret that is kept with its tokens."""

    def __init__(self, login: Login, kept: TokenStorage) -> None:
        assert login.client_id is not None, "a client secret needs a client_id"
        self.client_id = login.client_id
        self._login = login
        self._storage = kept

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        record = await self._storage.load(_secret_name(self._login))
        secret = None if record is None else str(record["secret"])
        await by_method(method_for(secret, server), self.client_id, secret).sign(request, server)


class _Nobody:
    """Stands in the place of a browser where no page may be opened."""

    def __init__(self, url: str) -> None:
        self._url = url

    def receive_redirect(
        self, registered: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[RedirectReceiver]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise AuthorizationFailedError(
            f"the stored login is no longer valid. Run mcpkit auth login {self._url}"
        )
