"""Predicates over principals: `visible=` and the `to=` of an update."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from .._utils.exceptions import RegistrationError
from .principal import Principal

logger = logging.getLogger(__name__)

Predicate = Callable[[Principal], bool]
"""Returns whether a principal may see a component or receive a change; fast and deterministic."""


def check_visible(what: str, visible: Any) -> None:
    """Check a predicate.

    Raises:
        RegistrationError: It is not a function, or it is async.
    """
    if visible is None:
        return
    if not callable(visible):
        raise RegistrationError(
            f"{what} must be a function of the principal, such as "
            f'lambda principal: "admin" in principal.scopes; got {visible!r}'
        )
    if inspect.iscoroutinefunction(visible):
        raise RegistrationError(
            f"{what} must not be async, as it is called for each list and each call. Look up what it needs while the "
            "request is authenticated, and store it in the scopes of the principal"
        )


def says(predicate: Predicate, principal: Principal, problem: str, subject: object) -> bool:
    """Return the result of a predicate; False if it raises, or returns no bool.

    Args:
        predicate: The function.
        principal: Its argument.
        problem: Log message for a failure, with `%` places for the subject and for the failure.
        subject: Subject of the decision, for the log message.
    """
    try:
        answer: Any = predicate(principal)
    except Exception:  # whatever it is, nobody sees or hears more because of it
        logger.exception(problem, subject, "raised an exception")
        return False
    if not isinstance(answer, bool):
        logger.error(problem, subject, f"returned {answer!r} instead of True or False")
        return False
    return answer
