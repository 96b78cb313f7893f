"""Who a request comes from, as far as somebody before the server has verified it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, init=False)
class Principal:
    """Who a request comes from, and what they have been granted (basic/authorization).

    mcpkit verifies nobody: over HTTP this is what an authentication middleware has found out, and what
    `asgi(principal=)` makes of it; elsewhere, what `run(principal=)` says.

    Args:
        id: Who it is, the same in all their requests; None where nobody knows.
        scopes: What the request's credentials grant, such as `{"files:read"}`.

    Raises:
        TypeError: The id is no text, or the scopes are no set of texts.
        ValueError: The id is empty, so that all who have none would be one.
    """

    id: str | None
    scopes: frozenset[str]

    def __init__(self, id: str | None = None, scopes: Collection[str] = ()) -> None:  # noqa: A002 - the attribute's name
        if id is not None and not isinstance(id, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"id must be text, or None for nobody, got {id!r}")
        if id == "":
            raise ValueError("id must not be empty; None stands for nobody")
        if isinstance(scopes, str) or not all(isinstance(scope, str) for scope in scopes):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f'scopes must be a set of texts such as {{"files:read"}}, got {scopes!r}')
        object.__setattr__(self, "id", id)
        object.__setattr__(self, "scopes", frozenset(scopes))


ANYONE = Principal()
"""Stands for whoever asks where nobody has verified who it is."""


def checked_principal(principal: object) -> Principal:
    """Return what stands for all requests, where it is a Principal.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(principal, Principal):
        raise TypeError(f'principal must be a Principal, such as Principal("ada"), got {principal!r}')
    return principal
