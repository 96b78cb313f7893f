"""Selection of scopes (basic/authorization, "Scope Selection Strategy", "Step-Up Authorization Flow")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...auth.discovery import AuthorizationServerMetadata

OFFLINE_ACCESS: Final = "offline_access"
"""The scope that requests a refresh token (OpenID Connect Core 1.0, 11)."""


def wanted_scopes(
    server: AuthorizationServerMetadata,
    *,
    chosen: Iterable[str] | None,
    challenged: Iterable[str],
    published: Iterable[str] | None,
    before: Iterable[str],
    wants_refresh: bool,
) -> tuple[str, ...] | None:
    """Return the scopes to request; None leaves them to the authorization server.

    Args:
        server: The authorization server. Its `scopes_supported` decides about `offline_access` only.
        chosen: The scopes that the user chose; None for those that the server names.
        challenged: The scopes of the challenge.
        published: The scopes in the server's metadata; None if there are none.
        before: The scopes that were requested or granted before.
        wants_refresh: Whether the client can use a refresh token.
    """
    base = list(chosen if chosen is not None else ())
    if chosen is None:
        base = [*before, *challenged] or list(published or ())
    else:
        base += [*before, *challenged]
    scopes = dict.fromkeys(base)
    known = server.strings("scopes_supported")
    if known is not None and OFFLINE_ACCESS not in known:
        scopes.pop(OFFLINE_ACCESS, None)
    elif known is not None and scopes and wants_refresh:
        scopes[OFFLINE_ACCESS] = None
    return tuple(scopes) or None


def scopes_of(text: object) -> tuple[str, ...]:
    """Return the scopes of a `scope` parameter; none if it is not a string."""
    return tuple(dict.fromkeys(text.split())) if isinstance(text, str) else ()
