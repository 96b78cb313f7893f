"""Who of a provider's users may come in, as the author says."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection

from ...state.principal import Principal
from ...state.scopes import scope_names

Allow = Callable[[Principal], "bool | Collection[str] | Awaitable[bool | Collection[str]]"]
"""Says whether a user may come in, or which scopes they may have; async or not."""


async def admitted(allow: Allow | None, principal: Principal) -> bool | Collection[str]:
    """Return what a function says of a user: whether they may come in, or the scopes that they may have at most.

    Args:
        allow: The function; None admits everybody.
        principal: The user, with the scopes that are asked for.

    Raises:
        TypeError: It says something else.
        Exception: Whatever it raises.
    """
    if allow is None:
        return True
    said: object = allow(principal)
    if inspect.isawaitable(said):
        said = await said
    return said if isinstance(said, bool) else scope_names("what allow= returns", said)


def check_allow(allow: object) -> None:
    """Refuse what is no function.

    Raises:
        TypeError: It is none.
    """
    if allow is not None and not callable(allow):
        raise TypeError(
            "allow= is a function of the principal that returns True, False or the scopes they may have, such as "
            f'lambda who: who.claims["login"] == "ada"; got {allow!r}'
        )
