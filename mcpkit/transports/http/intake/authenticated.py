"""Who has sent a request, as an authentication middleware before the app has left it in the ASGI scope."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any
from uuid import UUID

from ....state.principal import ANYONE, Principal
from ..exchange import Scope
from ..options import FindPrincipal
from .refused_body import UnreadError

logger = logging.getLogger("mcpkit")


def principal_of(scope: Scope, find: FindPrincipal | None) -> Principal:
    """Return who has sent a request.

    Args:
        scope: Its ASGI scope.
        find: The author's function; None takes what Starlette's AuthenticationMiddleware leaves in the scope.

    Raises:
        UnreadError: The author's function fails; nobody is served as somebody else because of it.
    """
    if find is None:
        return _from_starlette(scope) if "user" in scope or "auth" in scope else ANYONE
    try:
        found = find(scope)
        if found is None:
            return ANYONE
        if not isinstance(found, Principal):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"principal= must return a Principal or None, got {type(found).__name__}")
    except Exception:
        logger.exception("principal= cannot say who sends a request")
        raise UnreadError(500, "the server cannot tell who sends this request") from None
    return found


def _from_starlette(scope: Scope) -> Principal:
    """Read `scope["user"]` and `scope["auth"]` where they have the form of Starlette's; nobody, where not."""
    user: Any = scope.get("user")
    auth: Any = scope.get("auth")
    scopes: frozenset[str] = frozenset()
    with suppress(AttributeError, TypeError):
        scopes = Principal(None, auth.scopes).scopes
    if getattr(user, "is_authenticated", False) is not True:
        return Principal(None, scopes)
    try:
        id_ = user.identity
    except (AttributeError, NotImplementedError):  # a SimpleUser has none
        id_ = getattr(user, "display_name", None)
    if isinstance(id_, int | UUID):  # the key of a database, which not everybody makes a text of
        id_ = str(id_)
    return Principal(id_ if isinstance(id_, str) and id_ else None, scopes)
