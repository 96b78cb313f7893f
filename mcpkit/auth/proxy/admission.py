"""Admission of users of a provider, by the option `allow`."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial

from ..._utils.exceptions import RegistrationError
from ...identity.principal import Principal
from ...identity.scopes import Scopes, scope_names
from ..verifier import InThread

logger = logging.getLogger(__name__)

Allow = Callable[[Principal], "bool | Collection[str] | Awaitable[bool | Collection[str]]"]
"""Decides whether a user may log in, or which scopes they may have; async or not."""


_TIMEOUT = 30.0
"""Seconds in which the function must return, while a user and a client wait."""


class Admission:
    """Calls the function `allow`.

    Args:
        allow: The function; None allows every user.
        scopes: Scopes of the server.
        in_thread: Calls a function that can block.
    """

    def __init__(self, allow: Allow | None, scopes: Scopes, in_thread: InThread) -> None:
        self._allow = allow
        self._scopes = scopes
        self._in_thread = in_thread

    async def of(self, principal: Principal) -> bool | Collection[str]:
        """Return whether a user may log in, or the maximum scopes.

        Scopes that the server does not have are logged as a warning and ignored.

        Args:
            principal: The user, with the requested scopes.

        Raises:
            TypeError: The function returned another type.
            TimeoutError: The function did not return in time.
            Exception: The exception of the function.
        """
        if self._allow is None:
            return True
        try:
            said = await asyncio.wait_for(self._asked(self._allow, principal), _TIMEOUT)
        except asyncio.TimeoutError as error:
            raise TimeoutError(
                f"allow= did not return within {_TIMEOUT:g} s. Make the function faster"
            ) from error
        if isinstance(said, bool):
            return said
        kind = type(said).__name__
        if said is None or isinstance(said, Mapping):
            raise TypeError(f"allow= must return True, False or the scopes that a user may have, got {kind}")
        names = scope_names("the result of allow=", said)
        try:
            self._scopes.check("allow= returns", names)
        except RegistrationError as error:
            logger.warning("%s", error)
        return names

    async def _asked(self, allow: Allow, principal: Principal) -> object:
        """Return the result of the function. A function that is not async runs in a thread."""
        if inspect.iscoroutinefunction(allow):
            return await allow(principal)
        said = await self._in_thread(partial(allow, principal))
        return await said if inspect.isawaitable(said) else said


def check_allow(allow: object) -> None:
    """Check the option `allow`.

    Raises:
        TypeError: The value is not a function.
    """
    if allow is not None and not callable(allow):
        raise TypeError(
            "allow= must be a function of the principal that returns True, False or the scopes they may have, such as "
            f'lambda who: who.claims["login"] == "ada"; got {allow!r}'
        )
