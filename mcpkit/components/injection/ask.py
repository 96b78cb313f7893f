"""`Ask`: a parameter that the user fills in, as in `city: Annotated[City, Ask("Which city?")]`."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Annotated, Any, Union, cast, get_args, get_origin

from ..._utils.errors import MissingCapabilityError, RegistrationError
from ...requests.call import Call
from ...requests.client_requests import ElicitationResult, ElicitRequest
from ...requests.client_requests import ask as ask_client
from .markers import FromRequest, marking


@marking
def Ask(message: str, *, key: str | None = None) -> Any:  # noqa: N802 - reads as a type where it stands
    """Fill a parameter with input of the user, requested before the function runs (client/elicitation).

    Write it in the annotation, `city: Annotated[City, Ask("Which city?")]`, or as default value,
    `city: City = Ask("Which city?")`. The parameter is not in the input schema. Its type is the requested type.
    `City | None` is None when the user declines or the client does not support elicitation. `ElicitationResult[City]`
    has the user's action. With other types, the call fails when the user declines.

    Args:
        message: Message for the user.
        key: See `ElicitRequest`; None takes the position of the parameter.

    Returns:
        A marker; type checkers see a value of any type.
    """
    return AskedValue(message, key)


class AskedValue(FromRequest):
    """Marker that `Ask` returns.

    Args:
        message: Message for the user.
        key: See `ElicitRequest`.
    """

    is_question = True

    def __init__(self, message: str, key: str | None) -> None:
        self.message = message
        self.key = key

    def reader(self, annotation: Any, default: Any) -> Callable[[Call], Any]:
        """Return the coroutine function that requests the input."""
        type_, wants_answer, may_be_none = _asked(annotation)
        if default is not inspect.Parameter.empty and not isinstance(default, AskedValue):
            raise RegistrationError(
                "a parameter with Ask must not have a default. Write `| None` for users who decline or cancel"
            )
        message, key = self.message, self.key
        try:
            ElicitRequest(message, type_, key=key)  # which complains of what cannot be asked for
        except (TypeError, ValueError) as error:
            raise RegistrationError(str(error)) from None

        async def ask(call: Call) -> Any:
            try:
                request = ElicitRequest(message, type_, key=key)
                answer: ElicitationResult[Any] = (await ask_client(call, (request,)))[0]
            except MissingCapabilityError:
                if may_be_none:
                    return None
                raise
            if wants_answer:
                return answer
            return None if may_be_none and not answer else answer.value

        return ask


def _asked(annotation: Any) -> tuple[Any, bool, bool]:
    """Return the requested type, whether the parameter takes the whole result, and whether it may be None."""
    asked: Any = annotation
    metadata: tuple[Any, ...] = ()
    if get_origin(asked) is Annotated:
        metadata = tuple(item for item in asked.__metadata__ if not isinstance(item, AskedValue))
        asked = get_args(asked)[0]
    wants_answer = get_origin(asked) is ElicitationResult
    if wants_answer:
        (asked,) = get_args(asked)
    may_be_none = False
    if get_origin(asked) in (Union, types.UnionType):
        branches = [branch for branch in get_args(asked) if branch is not types.NoneType]
        may_be_none = len(branches) < len(get_args(asked))
        asked = Union[tuple(branches)]  # noqa: UP007 - of as many as there are
    if metadata:
        parts = (asked, *metadata)  # a star in an index is Python 3.11's
        asked = cast("Any", Annotated)[parts]
    return asked, wants_answer, may_be_none
