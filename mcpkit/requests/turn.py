"""Timeout and concurrency slot of one call."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from .._utils.errors import CallTimeoutError
from ..execution.coroutines import see_through
from ..execution.threads import log_late, of_a_function
from .runtime import BaseCall

_left_behind: set[asyncio.Task[None]] = set()
"""Coroutines that go on after their time is over; the event loop alone would let go of them."""


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

    async def take(self) -> None:
        """Wait for a slot."""
        place = self.ask()
        if not place.done():
            try:
                await place
            except asyncio.CancelledError:
                self.drop(place)
                raise

    def ask(self, *, is_next: bool = False) -> asyncio.Future[None]:
        """Request a slot.

        Args:
            is_next: Whether the caller goes before all that wait, because it had a slot already.

        Returns:
            A future that is done when there is a slot. Then the caller must give it back, or before that, drop the
            future.
        """
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._free:
                self._free -= 1
                place.set_result(None)
            elif is_next:
                self._waiting.appendleft(place)
            else:
                self._waiting.append(place)
        return place

    def drop(self, place: asyncio.Future[None]) -> None:
        """Cancel the request of a slot, granted or not."""
        with self._lock, suppress(ValueError):
            self._waiting.remove(place)
            return
        self.give_back()  # it is there, or on its way

    def give_back(self) -> None:
        """Release a slot, to the first call that waits for one; from any thread."""
        with self._lock:
            while self._waiting:
                place = self._waiting.popleft()
                try:
                    place.get_loop().call_soon_threadsafe(_hand_over, place)
                except RuntimeError:  # that event loop is closed, and nobody waits there any more
                    continue
                return
            self._free += 1


def _hand_over(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Turn:
    """Timeout and concurrency slot of one call.

    Args:
        call: The request.
        timeout: Timeout in seconds, without the time in which requests to the client are open; None for no timeout.
        slots: Slots of the component; None for no limit.

    Attributes:
        is_over: Whether the timeout has ended.
    """

    __slots__ = (
        "_call",
        "_deadline",
        "_has_begun",
        "_has_slot",
        "_outcome",
        "_pauses",
        "_place",
        "_remaining",
        "_slots",
        "_task",
        "_timeout",
        "_timer",
        "is_over",
    )

    def __init__(self, call: BaseCall, timeout: float | None, slots: Slots | None) -> None:
        self.is_over = False
        self._call = call
        self._timeout = timeout
        self._remaining = timeout
        self._slots = slots
        self._has_slot = False
        self._has_begun = False
        self._pauses = 0
        self._place: asyncio.Future[None] | None = None  # the slot that is asked for after a question
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._outcome: asyncio.Future[Any] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def deadline(self) -> float | None:
        """End of the timeout, in seconds of `time.monotonic()`.

        While a request to the client is open, the end that it would have if the client responded now.
        """
        deadline, remaining = self._deadline, self._remaining
        if deadline is None and remaining is not None:
            return time.monotonic() + remaining
        return deadline

    async def work(self, run: Coroutine[Any, Any, Any]) -> Any:
        """Wait for a slot, and run. The slot is released when nothing of the function runs any more."""
        slots = self._slots
        if slots is not None:
            try:
                await slots.take()
            except BaseException:
                run.close()
                raise
            self._has_slot = True
        self._has_begun = True
        try:
            return await run
        finally:
            self._slots = None  # from now on nothing here needs one
            if self._place is not None and slots is not None:
                slots.drop(self._place)
                self._place = None
            if self._has_slot and slots is not None:
                self._has_slot = False
                left = self._call.left
                if left is None or left.done():
                    slots.give_back()
                else:
                    left.add_done_callback(lambda _: slots.give_back())

    async def work_in_time(self, run: Coroutine[Any, Any, Any]) -> Any:
        """Run `work` in a task of its own. The caller does not wait for it beyond the deadline."""
        loop = asyncio.get_running_loop()
        outcome = self._outcome = loop.create_future()
        self._start_clock()
        task = self._task = loop.create_task(self._settle(run, outcome))
        task.add_done_callback(lambda _: run.close())  # where it was cancelled before it began
        try:
            return await outcome
        except asyncio.CancelledError:
            if outcome.cancelled():  # the call is; nobody waits, but as long as it runs, it has not ended
                task.cancel()
                await _see_out(task)
            raise
        finally:
            self._stop_clock()
            self._outcome = self._task = None  # which hold this

    async def _settle(self, run: Coroutine[Any, Any, Any], outcome: asyncio.Future[Any]) -> None:
        try:
            value = await self.work(run)
        except BaseException as error:  # noqa: BLE001 - the caller's
            if not outcome.done():
                # Whoever awaits a future with this in it would be closed by it.
                outcome.set_exception(of_a_function(error) if isinstance(error, GeneratorExit) else error)
            elif self.is_over and not isinstance(error, asyncio.CancelledError):
                log_late(f"a function called by {self._call.method}", error)
        else:
            if not outcome.done():
                outcome.set_result(value)

    def _expire(self) -> None:
        outcome, task = self._outcome, self._task
        if outcome is None or task is None or outcome.done():
            return
        assert self._timeout is not None
        self.is_over = self._call.is_timed_out = True
        outcome.set_exception(CallTimeoutError(self._timeout, has_begun=self._has_begun))
        task.cancel()
        running, caller = self._call.runtime.running, self._call.channel.caller
        running.take(caller)  # it counts until it has stopped, so that those who do not are bounded
        _left_behind.add(task)

        def forget(task: asyncio.Task[None]) -> None:
            running.give_back(caller)
            _left_behind.discard(task)

        task.add_done_callback(forget)

    def _start_clock(self) -> None:
        if self._remaining is not None:
            self._deadline = time.monotonic() + self._remaining
            self._timer = asyncio.get_running_loop().call_later(self._remaining, self._expire)

    def _stop_clock(self) -> None:
        if self._timer is not None and self._deadline is not None:
            self._timer.cancel()
            self._remaining = max(0.0, self._deadline - time.monotonic())
            self._timer = self._deadline = None

    # While a question is open

    async def __aenter__(self) -> None:
        """Stop the clock and release the slot, at the first of concurrent requests to the client."""
        self._pauses += 1
        if self._pauses == 1:
            self._stop_clock()
            if self._has_slot and self._slots is not None:
                self._has_slot = False
                self._slots.give_back()

    async def __aexit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        """Restart the clock and take a slot again, before calls that have had none yet."""
        self._pauses -= 1
        if self._pauses or self._call.is_ended or error_type is GeneratorExit:
            return
        self._start_clock()
        if self._slots is not None and not self._has_slot:
            await self._take_again(self._slots)

    async def _take_again(self, slots: Slots) -> None:
        """Wait for a slot, one for all parts of the function that wait.

        A cancellation of such a part is deferred: the rest of the function continues, and must have its slot.
        """
        place = self._place
        if place is None:
            place = self._place = slots.ask(is_next=True)
            if place.done():
                self._receive(place)
            else:
                place.add_done_callback(self._receive)  # before the parts that wait hear of it
        await see_through(place, lambda: self._call.is_over)

    def _receive(self, place: asyncio.Future[None]) -> None:
        if self._place is place and self._slots is not None:
            self._place = None
            if self._pauses:  # another question has been opened meanwhile
                self._slots.give_back()
            else:
                self._has_slot = True


async def _see_out(task: asyncio.Task[None]) -> None:
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
