"""Limits of requests: fair shares of all clients, concurrent calls of one component, and timeouts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from .._utils.concurrency import Running
from .._utils.exceptions import BusyError, CallTimeoutError, RegistrationError
from .._utils.option_checks import Described
from ..execution.coroutines import see_through
from ..execution.worker_threads import log_late, loop_safe_error

# Fair shares of a server's limits

_ANONYMOUS = "clients without a token"


class Anonymous(str):
    """Identifier of a client of a protected server without an access token; all of them share one client's part."""

    __slots__ = ()


class Shares:
    """Number of places in use, in total and by client.

    An identified client may use at most as many places as are free for others: a single client half of them, each of
    two clients a third. So a new client finds a place, without a limit for each client. All anonymous clients count as
    one client, and share its part in the same way.

    Attributes:
        taken: Number of places in use.
    """

    __slots__ = ("_taken_by", "taken")

    def __init__(self) -> None:
        self.taken = 0
        self._taken_by: dict[str, int] = {}

    def has_room(self, limit: int, caller: str | None, amount: int = 1) -> bool:
        """Return True if a client may use more places.

        Args:
            limit: Total number of places.
            caller: The client; None for an unidentified client, which may use all.
            amount: Number of additional places.
        """
        free = limit - self.taken - amount
        return free >= 0 if caller is None else self._excessive(free, caller) is None

    def _excessive(self, free: int, caller: str) -> str | None:
        """Return the client that exceeds its share, `_ANONYMOUS` for all anonymous clients together, or None."""
        own = self._taken_by.get(caller, 0)
        if isinstance(caller, Anonymous):
            together = self._taken_by.get(_ANONYMOUS, 0)
            if free < together:
                return _ANONYMOUS
            own, free = 2 * own, free - together  # as each place of one is one less for the others, twice
        return caller if free < own else None

    def check(
        self, limit: int, caller: str | None, requests_or_streams: str, *, retry_after: int = 1
    ) -> None:
        """Raise an error if a client may not use one more place.

        Args:
            limit: Total number of places.
            caller: The client.
            requests_or_streams: Use of the places, such as "requests are running", for the message.
            retry_after: Seconds after which the client should try again.

        Raises:
            BusyError: There is no place for the client.
        """
        if not self.has_room(limit, caller):
            raise BusyError(
                f"Too many {requests_or_streams} {self.excess(limit, caller)}. Try again in {retry_after} s",
                retry_after=retry_after,
            )

    def excess(self, limit: int, caller: str | None, amount: int = 1) -> str:
        """Return the exceeded number in parentheses, for messages: the limit, or the number of one client."""
        if self.taken + amount > limit:
            return f"({limit})"
        client = None if caller is None else self._excessive(limit - self.taken - amount, caller)
        own = f"{self.count_of(client)} from {client}"
        return f"({own}; one client has at most as many of {limit} as are left for others)"

    def count_of(self, caller: str | None) -> int:
        """Return the number of places that a client uses; 0 for an unidentified client."""
        return 0 if caller is None else self._taken_by.get(caller, 0)

    def may_yield(self, limit: int, caller: str | None, holder: str | None) -> bool:
        """Return True if a place may go from one client to another. A client with a full share may only reuse its own.

        Args:
            limit: Total number of places.
            caller: Client that needs a place.
            holder: Client that has the place.
        """
        own = self.count_of(caller)
        if isinstance(caller, Anonymous):
            if 4 * own >= limit:
                return holder == caller
            return 2 * self.count_of(_ANONYMOUS) < limit or isinstance(holder, Anonymous)
        return 2 * own < limit or holder == caller

    def take(self, caller: str | None, amount: int = 1) -> None:
        """Use places, even beyond the limit."""
        self.taken += amount
        if caller is not None:
            self._add(caller, amount)

    def release(self, caller: str | None, amount: int = 1) -> None:
        """Release places that `take` has taken for the same client."""
        self.taken -= amount
        if caller is not None:
            self._add(caller, -amount)

    def _add(self, caller: str, amount: int) -> None:
        for name in (caller, _ANONYMOUS) if isinstance(caller, Anonymous) else (caller,):
            self._taken_by[name] = self._taken_by.get(name, 0) + amount
            if not self._taken_by[name]:
                del self._taken_by[name]


# Limits of one component

# Stands for the timeout of the server that serves the call.
INHERITED = Described("the server's")


class CallLimits(NamedTuple):
    """Limits for the calls of one component.

    Args:
        timeout: Timeout of a call in seconds; None for no timeout.
        slots: Slots for concurrent calls; None for no limit.
    """

    timeout: float | None
    slots: Slots | None

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
        timeout = options.get("timeout")
        is_number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
        if timeout is not None and not (is_number and 0 < timeout < float("inf")):
            raise RegistrationError(
                f"{what}: timeout must be a positive number of seconds, or None for no limit, got {timeout!r}"
            )
        concurrency = options.get("max_concurrency")
        if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
            raise RegistrationError(
                f"{what}: max_concurrency must be an integer of at least 1, or None for no limit, "
                f"got {concurrency!r}"
            )
        return cls(options.get("timeout", INHERITED), Slots(concurrency) if concurrency is not None else None)


class Slots:
    """Slots for concurrent calls, given in order of arrival; for any event loop and thread.

    Args:
        number: Number of slots.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._free = number
        self._lock = threading.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Wait for a slot."""
        slot = self.request()
        if not slot.done():
            try:
                await slot
            except asyncio.CancelledError:
                self.cancel(slot)
                raise

    def request(self, *, is_next: bool = False) -> asyncio.Future[None]:
        """Request a slot.

        Args:
            is_next: Whether the caller goes before all that wait, because it had a slot already.

        Returns:
            A future that is done when there is a slot. Then the caller must release it, or before that, cancel the
            request.
        """
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._free:
                self._free -= 1
                slot.set_result(None)
            elif is_next:
                self._waiting.appendleft(slot)
            else:
                self._waiting.append(slot)
        return slot

    def cancel(self, slot: asyncio.Future[None]) -> None:
        """Cancel the request of a slot, granted or not."""
        with self._lock, suppress(ValueError):
            self._waiting.remove(slot)
            return
        self.release()  # it was granted, or is about to be

    def release(self) -> None:
        """Release a slot, to the first call that waits for one; from any thread."""
        with self._lock:
            while self._waiting:
                slot = self._waiting.popleft()
                try:
                    slot.get_loop().call_soon_threadsafe(_grant, slot)
                except RuntimeError:  # its event loop is closed, so no task waits there any more
                    continue
                return
            self._free += 1


def _grant(slot: asyncio.Future[None]) -> None:
    if not slot.done():
        slot.set_result(None)


class LimitedRun:
    """One run of a component's function within its timeout and its concurrency limit.

    As a context manager, it is a pause, in which a request to the client is open: the clock stops, and other calls may
    use the slot.

    Args:
        call: The request.
        timeout: Timeout in seconds, without pauses; None for no timeout.
        slots: Slots of the component; None for no limit.
        running: Shares of the running requests. After the timeout, a function that does not stop counts there.
        caller: Client of the request, in these shares.

    Attributes:
        is_over: Whether the timeout has ended.
    """

    def __init__(
        self, call: Running, timeout: float | None, slots: Slots | None, running: Shares, caller: str | None
    ) -> None:
        self.is_over = False
        self._call = call
        self._timeout = timeout
        self._remaining = timeout
        self._slots = slots
        self._running = running
        self._caller = caller
        self._has_slot = False
        self._has_begun = False
        self._pauses = 0
        self._requested: asyncio.Future[None] | None = None  # the slot that is requested after a pause
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._outcome: asyncio.Future[Any] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def deadline(self) -> float | None:
        """End of the timeout, in seconds of `time.monotonic()`.

        During a pause, the end that it would have if the pause ended now.
        """
        deadline, remaining = self._deadline, self._remaining
        if deadline is None and remaining is not None:
            return time.monotonic() + remaining
        return deadline

    async def run(self, function: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine. With a timeout, it has a task of its own, for which the caller does not wait any longer."""
        if self._timeout is None:
            return await self._run_in_slot(function)
        loop = asyncio.get_running_loop()
        outcome = self._outcome = loop.create_future()
        self._start_clock()
        task = self._task = loop.create_task(self._settle(function, outcome))
        task.add_done_callback(lambda _: function.close())  # if the task was cancelled before it began
        try:
            return await outcome
        except asyncio.CancelledError:
            if outcome.cancelled():  # the call was cancelled, and has ended when its function has
                task.cancel()
                while not task.done():
                    try:
                        await asyncio.wait({task})
                    except asyncio.CancelledError:
                        task.cancel()
            raise
        finally:
            self._stop_clock()
            self._outcome = self._task = None  # they refer to this object

    async def _settle(self, function: Coroutine[Any, Any, Any], outcome: asyncio.Future[Any]) -> None:
        try:
            value = await self._run_in_slot(function)
        except BaseException as error:  # noqa: BLE001 - the caller's
            if not outcome.done():
                # A GeneratorExit in a future would close the coroutine that awaits it.
                outcome.set_exception(loop_safe_error(error) if isinstance(error, GeneratorExit) else error)
            elif self.is_over and not isinstance(error, asyncio.CancelledError):
                log_late(f"a function called by {self._call.method}", error)
        else:
            if not outcome.done():
                outcome.set_result(value)

    async def _run_in_slot(self, function: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a slot, and run. The slot is released when nothing of the function runs any more."""
        slots = self._slots
        if slots is not None:
            try:
                await slots.acquire()
            except BaseException:
                function.close()
                raise
            self._has_slot = True
        self._has_begun = True
        try:
            return await function
        finally:
            self._slots = None  # from now on no part of the function needs a slot
            if self._requested is not None and slots is not None:
                slots.cancel(self._requested)
                self._requested = None
            if self._has_slot and slots is not None:
                self._has_slot = False
                left = self._call.left
                if left is None or left.done():
                    slots.release()
                else:
                    left.add_done_callback(lambda _: slots.release())

    # Clock

    def _start_clock(self) -> None:
        if self._remaining is not None:
            self._deadline = time.monotonic() + self._remaining
            self._timer = asyncio.get_running_loop().call_later(self._remaining, self._expire)

    def _stop_clock(self) -> None:
        if self._timer is not None and self._deadline is not None:
            self._timer.cancel()
            self._remaining = max(0.0, self._deadline - time.monotonic())
            self._timer = self._deadline = None

    def _expire(self) -> None:
        outcome, task, running, caller = self._outcome, self._task, self._running, self._caller
        if outcome is None or task is None or outcome.done():
            return
        assert self._timeout is not None
        self.is_over = self._call.is_timed_out = True
        outcome.set_exception(CallTimeoutError(self._timeout, has_begun=self._has_begun))
        task.cancel()
        # Until it has stopped, so that functions that ignore the cancellation are bounded.
        running.take(caller)
        _late_tasks.add(task)

        def release(task: asyncio.Task[None]) -> None:
            running.release(caller)
            _late_tasks.discard(task)

        task.add_done_callback(release)

    # Pauses

    async def __aenter__(self) -> None:
        """Stop the clock and release the slot, at the first of concurrent pauses."""
        self._pauses += 1
        if self._pauses == 1:
            self._stop_clock()
            if self._has_slot and self._slots is not None:
                self._has_slot = False
                self._slots.release()

    async def __aexit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        """Restart the clock and take a slot again, before calls that have had none yet."""
        self._pauses -= 1
        if self._pauses or self._call.is_ended or error_type is GeneratorExit:
            return
        self._start_clock()
        if self._slots is None or self._has_slot:
            return
        # One slot for all parts of the function that wait. The cancellation of such a part is deferred: the rest of
        # the function continues, and must have its slot.
        slot = self._requested
        if slot is None:
            slot = self._requested = self._slots.request(is_next=True)
            if slot.done():
                self._receive(slot)
            else:
                slot.add_done_callback(self._receive)  # before the parts that wait continue
        await see_through(slot, lambda: self._call.is_over)

    def _receive(self, slot: asyncio.Future[None]) -> None:
        if self._requested is slot and self._slots is not None:
            self._requested = None
            if self._pauses:  # another pause has begun meanwhile
                self._slots.release()
            else:
                self._has_slot = True


# Tasks of functions that continue after their timeout; the event loop has only weak references to them.
_late_tasks: set[asyncio.Task[None]] = set()
