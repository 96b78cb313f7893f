"""OAuth clients for saved logins: their tokens and client secrets in the keyring or in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..auth.discovery import AuthorizationServerMetadata
from ..auth.http_client import create_client
from ..client.auth.authorization_server_client import AuthorizationFailedError
from ..client.auth.client_authentication import TokenRequest, by_method, method_for
from ..client.auth.file_tokens import FileTokens
from ..client.auth.keyring_tokens import default_storage
from ..client.auth.login_callback import Browser, RedirectReceiver
from ..client.auth.oauth import OAuth
from ..client.auth.token_storage import MemoryTokens, Tokens, TokenStorage
from ..protocol.jsonrpc import Json
from .saved_logins import Login, find_login, save_login, user_folder

if TYPE_CHECKING:
    import httpx2


def oauth_for(
    login: Login, *, interactive: bool = True, browser: Browser | None = None, is_new: bool = False
) -> OAuth:
    """Return the `auth` of a client for a login, which it saves.

    Args:
        login: The login.
        interactive: Whether to open a page for the user if no stored token is valid.
        browser: Opens pages; None for the browser of the system.
        is_new: Whether the user logs in even if a token is stored.
    """
    storage = _LoginStorage(_storage(), login, is_new=is_new)
    return OAuth(
        client_id=login.client_id,
        issuer=login.issuer,
        client_metadata_url=login.client_metadata_url,
        authentication=_StoredSecret(login, storage) if login.has_secret else None,
        scopes=login.scopes,
        storage=storage,
        browser=browser if interactive else _NoBrowser(login.url),
        dpop=login.has_key,
    )


async def bearer_token(url: str) -> str | None:
    """Return the token of the login at a server, refreshed if necessary; None without a login, and with DPoP.

    Raises:
        AuthorizationFailedError: The token has expired and cannot be refreshed.
    """
    login = find_login(url)
    if login is None:
        return None
    http = create_client(login.url)
    async with http:
        tokens = await oauth_for(login, interactive=False).authorizer(login.url).current(Sender(http))
    return tokens.access_token if tokens is not None and tokens.token_type == "Bearer" else None


@dataclass
class Sender:
    """HTTP client for requests to authorization servers."""

    client: httpx2.AsyncClient
    own_headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def for_others(self) -> httpx2.AsyncClient:
        """Return the client."""
        return self.client


async def save_client_secret(login: Login, secret: str) -> None:
    """Store the secret of a client that was registered by hand."""
    await _storage().save(_secret_name(login), {"version": 1, "secret": secret})


async def delete_client_secret(login: Login) -> None:
    """Delete the secret of a client."""
    await _storage().remove(_secret_name(login))


def _storage() -> TokenStorage:
    """Return the keyring of the system, or files that only the user can read if there is none."""
    storage = default_storage()
    return FileTokens(user_folder() / "tokens") if isinstance(storage, MemoryTokens) else storage


def _secret_name(login: Login) -> str:
    return f"secret {login.url} {login.client_id}"


class _LoginStorage(TokenStorage):
    """Token storage that saves the login with its tokens."""

    def __init__(self, inner: TokenStorage, login: Login, *, is_new: bool) -> None:
        self._inner = inner
        self._login = login
        self._is_new = is_new

    async def load(self, name: str) -> Json | None:
        return await self._inner.load(name)

    async def save(self, name: str, record: Json) -> None:
        await self._inner.save(name, record)

    async def remove(self, name: str) -> None:
        await self._inner.remove(name)

    def lock(self, name: str) -> AbstractAsyncContextManager[None]:
        return self._inner.lock(name)

    async def get_tokens(self, resource: str, client: str = "") -> Tokens | None:
        return None if self._is_new else await super().get_tokens(resource, client)

    async def set_tokens(self, tokens: Tokens, client: str = "") -> None:
        await super().set_tokens(tokens, client)
        self._is_new = False
        save_login(self._login)


class _StoredSecret:
    """Client authentication by a stored secret."""

    def __init__(self, login: Login, storage: TokenStorage) -> None:
        assert login.client_id is not None, "a client secret needs a client_id"
        self.client_id = login.client_id
        self._login = login
        self._storage = storage

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        record = await self._storage.load(_secret_name(self._login))
        secret = None if record is None else str(record["secret"])
        await by_method(method_for(secret, server), self.client_id, secret).sign(request, server)


class _NoBrowser:
    """Browser of a command that must not open pages."""

    def __init__(self, url: str) -> None:
        self._url = url

    def receive_redirect(
        self, registered: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[RedirectReceiver]:
        raise AuthorizationFailedError(
            f"the stored login is no longer valid. Run mcpkit auth login {self._url}"
        )
