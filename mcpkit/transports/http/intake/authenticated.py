"""Principal of a request from its ASGI scope, as set by an authentication middleware or found by a function."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any
from uuid import UUID

from ...._utils.exceptions import ChallengeError
from ....identity.principals_and_scopes import ANYONE, Principal
from ....options import FindPrincipal
from ....requests.error_responses import readable
from ..exchange import Scope
from ..statuses import headers_of
from .refused_body import UnreadError

logger = logging.getLogger(__name__)


async def find_principal(scope: Scope, find: FindPrincipal) -> Principal:
    """Return the principal of a request by the option `principal`.

    Args:
        scope: ASGI scope of the request.
        find: The function.

    Raises:
        UnreadError: The function raised a challenge, or failed. A failure never identifies the client as another one.
    """
    try:
        found = find(scope)
        if isinstance(found, Awaitable):
            found = await found
        if found is None:
            return ANYONE
        if not isinstance(found, Principal):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"principal= must return a Principal or None, got {type(found).__name__}")
    except ChallengeError as error:
        raise UnreadError(error.status, readable(error.message), headers_of(error)) from None
    except Exception:
        logger.exception("the function given as principal= failed; the request is answered with 500")
        raise UnreadError(
            500, "the server could not authenticate this request because of an internal error"
        ) from None
    return found


def principal_of(scope: Scope) -> Principal:
    """Return the principal of a request as set by Starlette's AuthenticationMiddleware.

    Args:
        scope: ASGI scope of the request. Values of `user` and `auth` in another form are ignored.
    """
    if not ("user" in scope or "auth" in scope):
        return ANYONE
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
