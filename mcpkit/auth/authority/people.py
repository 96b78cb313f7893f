"""Users and clients of `DevAuth`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from ...identity.scopes import scope_names
from .access_tokens import RESERVED
from .client import Client
from .redirects import check_redirect_uri

_VISIBLE = re.compile(r"[!-~]{1,200}")
_NOTHING: Mapping[str, object] = MappingProxyType({})


class DevUser:
    """A user of `DevAuth`.

    Args:
        name: Name of the user, the subject of the tokens.
        password: Password for the login; None for a login by one click.
        scopes: Scopes that the user can grant; None for all scopes of the server.
        claims: Additional claims of the user, such as `{"org_id": "acme"}`.

    Attributes:
        name: Name of the user.
        password: Password of the user, or None.
        scopes: Scopes that the user can grant, or None.
        claims: Additional claims, read-only.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The name is empty or not printable, the password is empty, or `claims` contains a claim that DevAuth
            sets itself.
    """

    __slots__ = ("claims", "name", "password", "scopes")

    def __init__(
        self,
        name: str,
        *,
        password: str | None = None,
        scopes: Collection[str] | None = None,
        claims: Mapping[str, object] = _NOTHING,
    ) -> None:
        _check_texts("the name of a DevUser", name, "password", password)
        if not name or not name.isprintable() or len(name) > 200:
            raise ValueError(f"the name of a DevUser must have 1 to 200 printable characters, got {name!r}")
        if password == "":
            raise ValueError(f"the password of {name!r} is empty. Pass None for a login without password")
        if taken := RESERVED.intersection(claims):
            raise ValueError(
                f"claims of {name!r} must not contain {', '.join(sorted(taken))}: DevAuth sets these claims itself"
            )
        self.name = name
        self.password = password
        self.scopes = None if scopes is None else scope_names(f"scopes of {name!r}", scopes)
        self.claims = MappingProxyType(dict(claims))

    def __repr__(self) -> str:
        """Return the name, without the password."""
        return f"DevUser({self.name!r})"


class DevClient:
    """A preregistered client of `DevAuth`, such as a job that uses the client credentials grant.

    Args:
        id: The `client_id`.
        secret: The client secret; None for a public client.
        redirect_uris: Allowed redirect URIs.
        scopes: Scopes of the client with the client credentials grant, which needs a secret; None forbids that grant.

    Attributes:
        client: The client, as the authorization server stores it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The ID is a URL or not visible ASCII, the secret is empty or missing, or a redirect URI is not
            allowed.
    """

    __slots__ = ("client",)

    def __init__(
        self,
        id: str,  # noqa: A002 - the parameter's name
        *,
        secret: str | None = None,
        redirect_uris: Iterable[str] = (),
        scopes: Collection[str] | None = None,
    ) -> None:
        _check_texts("the id of a DevClient", id, "secret", secret)
        if not _VISIBLE.fullmatch(id) or id.startswith(("https:", "http:")):
            raise ValueError(
                f"the id of a DevClient must have 1 to 200 visible ASCII characters and not be a URL, got {id!r}"
            )
        if secret == "":
            raise ValueError(f"the secret of DevClient {id!r} is empty. Pass None for a public client")
        if secret is None and scopes is not None:
            raise ValueError(
                f"DevClient {id!r} has scopes= for the client credentials grant. Set secret= as well"
            )
        if isinstance(redirect_uris, str):
            raise TypeError(f"redirect_uris of {id!r} must be a list of URIs, got {redirect_uris!r}")
        try:
            checked = tuple(map(check_redirect_uri, redirect_uris))
        except ValueError as error:
            raise ValueError(f"redirect_uris of {id!r}: {error}") from None
        self.client = Client(
            id,
            id,
            checked,
            "none" if secret is None else "client_secret_basic",
            secret,
            None if scopes is None else scope_names(f"scopes of {id!r}", scopes),
        )

    def __repr__(self) -> str:
        """Return the client ID, without the secret."""
        return f"DevClient({self.client.id!r})"


def _check_texts(what: str, name: object, kind: str, secret: object) -> None:
    """Check that a name and a secret are strings. The error does not show the secret."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a string, got {name!r}")
    if not isinstance(secret, str | None):
        raise TypeError(f"the {kind} of {name!r} must be a string or None, not {type(secret).__name__}")
