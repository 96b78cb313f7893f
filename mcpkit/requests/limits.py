"""Timeouts of calls, and the limit of concurrent calls of one component."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from .._utils.errors import RegistrationError
from .._utils.signatures import Described
from .call import Call
from .turn import Slots, Turn

INHERITED = Described("the server's")
"""Stands for the timeout of the server that serves the call."""


class CallLimits:
    """Limits for the calls of one component.

    Args:
        timeout: Timeout of a call in seconds; None for no timeout.
        slots: Slots for concurrent calls; None for no limit.
    """

    __slots__ = ("slots", "timeout")

    def __init__(self, timeout: float | None, slots: Slots | None) -> None:
        self.timeout = timeout
        self.slots = slots

    @classmethod
    def of(cls, what: str, options: Mapping[str, Any]) -> CallLimits | None:
        """Read the options `timeout` and `max_concurrency`.

        Args:
            what: The component, for messages.
            options: The given options.

        Returns:
            The limits; None if neither option is given.

        Raises:
            RegistrationError: A value is not a positive number.
        """
        if "timeout" not in options and "max_concurrency" not in options:
            return None
        try:
            check_timeout(options.get("timeout"))
        except ValueError as error:
            raise RegistrationError(f"{what}: {error}") from None
        concurrency = options.get("max_concurrency")
        if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
            raise RegistrationError(
                f"{what}: max_concurrency must be an integer of at least 1, or None for no limit, "
                f"got {concurrency!r}"
            )
        return cls(options.get("timeout", INHERITED), Slots(concurrency) if concurrency is not None else None)


def check_timeout(timeout: Any) -> None:
    """Check a timeout in seconds.

    Raises:
        ValueError: It is invalid.
    """
    is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and 0 < timeout < float("inf")):
        raise ValueError(
            f"timeout must be a positive number of seconds, or None for no limit, got {timeout!r}"
        )


async def run_limited(run: Coroutine[Any, Any, Any], call: Call, limits: CallLimits | None) -> Any:
    """Run a component's function within its limits.

    Args:
        run: Coroutine of the run, not started.
        call: The request.
        limits: Limits of the component; the timeout of the server applies if they have none.

    Returns:
        The value of the run.

    Raises:
        CallTimeoutError: The timeout has ended. The run was cancelled, and continues alone if it ignores that.
        BaseException: The exception of the run.
    """
    timeout, slots = (INHERITED, None) if limits is None else (limits.timeout, limits.slots)
    if timeout == INHERITED:
        timeout = call.runtime.timeouts.call
    call.is_timed_out = False
    turn = call.turn = Turn(call, timeout, slots)
    try:
        return await (turn.work(run) if timeout is None else turn.work_in_time(run))
    finally:
        if not turn.is_over:  # else what goes on alone still asks for its deadline
            call.turn = None
