"""Logins of the user at servers, in `logins.json`, and OAuth clients for them.

Tokens and client secrets are in the keyring of the system or in files of their own. Most servers need no login, so
modules for OAuth are imported when there is one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..auth.urls_and_discovery import MetadataError, canonical
from ..client.auth.token_storage import FileTokens, MemoryTokens, Tokens, TokenStorage, locked
from ..protocol.jsonrpc import Json, is_array, is_object
from .exit_status import CommandError
from .hosts.install_records import read_bytes, replace_file

if TYPE_CHECKING:
    import httpx2

    from ..auth.urls_and_discovery import AuthorizationServerMetadata
    from ..client.auth.login_callback import Browser, RedirectReceiver
    from ..client.auth.oauth_grants import OAuth
    from ..client.auth.token_endpoint import TokenRequest

_VERSION: Final = 1


@dataclass(frozen=True)
class Login:
    """Options of a login at a server.

    Attributes:
        url: The canonical URL of the server.
        client_id: The `client_id` of a client that was registered by hand; None for one that registers itself.
        issuer: The only issuer of tokens; None for the one in the metadata of the server.
        client_metadata_url: The URL of the client ID metadata document, or None.
        scopes: The scopes to request; None for those in the metadata of the server.
        has_secret: Whether the client has a secret, which is stored with the tokens.
        has_key: Whether tokens are bound to a key (DPoP).
    """

    url: str
    client_id: str | None = None
    issuer: str | None = None
    client_metadata_url: str | None = None
    scopes: tuple[str, ...] | None = None
    has_secret: bool = False
    has_key: bool = False


def _user_folder() -> Path:
    home = os.environ.get("APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME")
    return (Path(home) if home else Path.home() / ".config") / "mcpkit"


def load_logins() -> dict[str, Login]:
    """Return the logins by URL; none if there is no file.

    Raises:
        CommandError: The file is invalid.
    """
    path = _user_folder() / "logins.json"
    text = read_bytes(path)
    if text is None:
        return {}
    try:
        content: object = json.loads(text)
        records = content["logins"] if is_object(content) and content.get("version") == _VERSION else None
        if not is_object(records):
            raise ValueError
        return {url: _login(url, record) for url, record in records.items()}
    except (ValueError, TypeError, KeyError):
        raise CommandError(
            f"{path} is invalid or was written by another version of mcpkit. Delete it, and log in again"
        ) from None


def _login(url: str, record: object) -> Login:
    if not is_object(record):
        raise TypeError
    texts = {name: record.get(name) for name in ("client_id", "issuer", "client_metadata_url")}
    if not all(isinstance(text, str | None) for text in texts.values()):
        raise TypeError
    scopes = record.get("scopes")
    return Login(
        url,
        **texts,
        scopes=tuple(map(str, scopes)) if is_array(scopes) else None,
        has_secret=record.get("has_secret") is True,
        has_key=record.get("has_key") is True,
    )


def find_login(url: str, *, creates: bool = False) -> Login | None:
    """Return the login at a server; None if there is none, or if no token may be sent to the URL.

    Args:
        url: The URL of the server.
        creates: Whether to return a new login if there is none.
    """
    try:
        server = canonical(url)
    except MetadataError:
        return None
    return load_logins().get(server, Login(server) if creates else None)


def save_login(login: Login) -> None:
    """Save a login; it replaces the one at the same server."""
    with _changed_logins() as logins:
        logins[login.url] = login


def delete_login(url: str) -> None:
    """Delete the login at a server, if there is one."""
    with _changed_logins() as logins:
        logins.pop(url, None)


@contextmanager
def _changed_logins() -> Generator[dict[str, Login]]:
    """Context with the logins; they are written at its end, while other processes wait."""
    folder = _user_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(folder / ".logins.lock"):
        logins = load_logins()
        yield logins
        records = {url: {**asdict(login), "url": None} for url, login in sorted(logins.items())}
        content = json.dumps({"version": _VERSION, "logins": records}, indent=2).encode()
        replace_file(folder / "logins.json", read_bytes(folder / "logins.json"), content)


# OAuth clients


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
    from ..client.auth.oauth_grants import OAuth

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
    from ..auth.oauth_http_client import create_client

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
    from ..client.auth.token_storage import default_storage

    storage = default_storage()
    return FileTokens(_user_folder() / "tokens") if isinstance(storage, MemoryTokens) else storage


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
        from ..client.auth.token_endpoint import by_method, method_for

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
        from ..client.auth.authorization_server_client import AuthorizationFailedError

        raise AuthorizationFailedError(
            f"the stored login is no longer valid. Run mcpkit auth login {self._url}"
        )
