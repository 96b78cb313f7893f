"""Users and clients that an author writes down for development."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from ...state.scopes import scope_names
from .access_tokens import RESERVED
from .client import Client
from .redirects import check_redirect_uri

_VISIBLE = re.compile(r"[!-~]{1,200}")
_NOTHING: Mapping[str, object] = MappingProxyType({})


class DevUser:
    """A user of `DevAuth`.

    Args:
        name: Their name, which is the subject of their tokens.
        password: What they have to say to log in; None where a click is enough.
        scopes: What they may grant; None for all that the server has.
        claims: What else their tokens say, such as `{"org_id": "acme"}`.

    Raises:
        TypeError: One of them has another type.
        ValueError: The name is empty or unprintable, the password is empty, or a claim is one that tokens have anyway.
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
        """Show who it is, without the password."""
        return f"DevUser({self.name!r})"


class DevClient:
    """A client of `DevAuth` that need not register itself, such as a job that asks for itself.

    Args:
        id: Its `client_id`.
        secret: Its secret; None for a public client.
        redirect_uris: Where users may be sent back to.
        scopes: What it may be granted when it asks for itself (`client_credentials`); None where it may not. It needs
            a secret for that.

    Raises:
        TypeError: One of them has another type.
        ValueError: The id is no visible ASCII or is a URL, the secret is empty or missing, or no client may have one
            of the redirect URIs.
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
        """Show which one it is, without the secret."""
        return f"DevClient({self.client.id!r})"


def _check_texts(what: str, name: object, kind: str, secret: object) -> None:
    """Refuse a name or a secret that is no text; the secret is not shown."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a string, got {name!r}")
    if not isinstance(secret, str | None):
        raise TypeError(f"the {kind} of {name!r} must be a string or None, not {type(secret).__name__}")
