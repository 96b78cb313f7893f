"""Rounds of random calls: a client and a server with faults, each result compared with what the server did."""

import asyncio
import gc
import random
import selectors
import sys
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from mcpkit import Client, ProtocolError, Retries
from mcpkit.client.elicitation_and_input_rounds import FormRequest
from mcpkit.exceptions import OutcomeUnknownError, TransportError
from tests.chaos.client_peer import HANDSHAKE, STATELESS, Peer, PipePeer
from tests.helpers.processes import open_resources

T = TypeVar("T")

_MOMENT = 0.001
"""Seconds in which whatever is under transport between two sockets of this machine has arrived."""


class _Selector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]  # which class it is, the platform says
    skip: Callable[[float], None]

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= _MOMENT:
            return super().select(timeout)
        events = super().select(_MOMENT)
        if not events:
            self.skip(timeout)
        return events


class FastLoop(asyncio.SelectorEventLoop):
    """The loop.

    Args:
        complain: Called with problems of the loop, such as exceptions that were never retrieved.

    Attributes:
        ahead: Seconds that its time is ahead of the clock.
    """

    def __init__(self, complain: Callable[[Any], object]) -> None:
        self.ahead = 0.0
        selector = _Selector()
        selector.skip = self._skip
        super().__init__(selector)
        self.set_exception_handler(lambda _, context: complain(context))

    def time(self) -> float:
        """Return its time."""
        return super().time() + self.ahead

    def _skip(self, seconds: float) -> None:
        self.ahead += seconds


@contextmanager
def no_leaks() -> Iterator[Callable[[Any], object]]:
    """Hold against what was there before a block what is there after it.

    Returns:
        A context manager that gives what takes complaints of event loops: there must be none.

    Raises:
        AssertionError: Something is left over.
    """
    complaints: list[Any] = []
    before, hook = open_resources(), sys.unraisablehook
    sys.unraisablehook = lambda unraisable: complaints.append(
        (unraisable.err_msg, unraisable.exc_value, str(unraisable.object))
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield complaints.append
            gc.collect()
    finally:
        sys.unraisablehook = hook
    assert not complaints, complaints
    left = open_resources() - before
    assert not left, f"left over: {left}"


TRIES = 3

MAY_REPEAT = {
    "bake": False, "bake again": True, "taste": True, "taste once": False, "clean": True, "ask": False,
}  # fmt: skip

WITHOUT_EFFECTS = ("list", "read", "prompt", "ping")


class FaultError(AssertionError):
    """A promise is broken."""


@dataclass
class Outcome:
    """The end of a call.

    Args:
        kind: What was called.
        key: Its key.
        error: What it has raised; None where it has a result.
        was_cancelled: Whether the round has cancelled it.
    """

    kind: str
    key: str
    error: BaseException | None = None
    was_cancelled: bool = False


@dataclass
class Round:
    """A round.

    Args:
        seed: What it is drawn from.
        complain: Called with what an event loop complains of.

    Attributes:
        figures: What has happened, counted.
    """

    seed: int
    complain: Callable[[Any], object]
    figures: Counter[str] = field(default_factory=Counter)
    timeout = 20.0
    longest = 3000.0
    """Seconds within which each call has ended, whatever happens: time that passes at once."""
    naps = (0.001, 0.05, 1, 30)

    def run(self) -> Counter[str]:
        """Play it, and return its figures.

        Raises:
            WrongError: A promise is broken.
        """
        random.seed(self.seed)
        loop = FastLoop(self.complain)
        try:
            loop.run_until_complete(self._main())
        except BaseException as error:
            raise FaultError(f"seed {self.seed}: {error!r}") from error
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
        self.figures["rounds"] += 1
        return self.figures

    async def _main(self) -> None:
        await asyncio.wait_for(self._run_rounds(), 20 * self.longest)
        await asyncio.sleep(0)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        require(not left, f"tasks are left: {left}")

    async def _run_rounds(self) -> None:
        draw = self._draw = Random(self.seed)
        self._peer = Peer(draw, draw.choice([STATELESS, HANDSHAKE]), draw.choice([1, 1, 2, 3, 6, 12]))
        self._server = PipePeer(self._peer)
        await self._use(self._server)

    async def _use(self, target: Any) -> None:
        draw, peer = self._draw, self._peer
        log_level = draw.choice([None, "warning"])
        self._wants_log = log_level is not None
        self._client = client = Client(
            target, elicitation_handler=self._answer, timeout=self.timeout, retries=Retries(attempts=TRIES)
        )
        if log_level is not None:
            await client.set_log_level(log_level)
        peer.is_armed = draw.random() < 0.2
        await self._enter()
        before = asyncio.all_tasks()
        try:
            await self._ask_amid_faults()
            peer.is_armed = False
            await self._check_recovery()
        finally:
            await client.close()
        left = asyncio.all_tasks() - before
        require(not left, f"tasks are left once the client has been closed: {left}")
        self.figures["faults"] += len(peer.faults)
        self.figures["lives of the server"] += peer.lives

    def _answer(self, form: FormRequest) -> Any:
        return {field.name: True for field in form.fields}

    async def _enter(self) -> None:
        for _ in range(30):
            outcome = Outcome("enter", "")
            await self._end(outcome, self._client.__aenter__())
            if outcome.error is None:
                outcome = Outcome("list", "")
                await self._end(outcome, self._client.list_tools())
                if outcome.error is None:
                    return
            await asyncio.sleep(1)
        raise FaultError(f"it could not be entered: {outcome.error!r}")

    # Faults

    async def _ask_amid_faults(self) -> None:
        draw, peer = self._draw, self._peer
        peer.is_armed = True
        calls = [self._random_call(number) for number in range(draw.choice([1, 1, 1, 2, 2, 4, 4, 8, 8, 64]))]
        if draw.random() < 0.4:
            for call in calls:
                await call()
            return
        tasks = [asyncio.ensure_future(call()) for call in calls]
        if draw.random() < 0.2:
            await self._turns()
            for task in draw.sample(tasks, draw.randint(1, len(tasks))):
                task.cancel()
        if draw.random() < 0.15:
            await self._turns()
            self.figures["closed amid calls"] += 1
            self._is_closed = True
            await asyncio.wait_for(self._client.close(), self.longest)
        await asyncio.wait(tasks)
        for task in tasks:
            task.cancelled() or task.result()  # the former before it has begun
        if self._is_closed:
            peer.is_armed = False
            self._is_closed = False
            await self._enter()

    _is_closed = False

    async def _turns(self) -> None:
        for _ in range(self._draw.choice([0, 1, 2, 3, 5, 8, 13, 21, 34, 55])):
            await asyncio.sleep(0)
        if self._draw.random() < 0.3:
            await asyncio.sleep(self._draw.choice(self.naps))

    def _random_call(self, number: int) -> Callable[[], Awaitable[None]]:
        draw = self._draw
        kind = draw.choice([*MAY_REPEAT, "bake", "bake", *WITHOUT_EFFECTS])
        reports = (lambda *_: None) if draw.random() < 0.3 else None
        key = f"{kind} {number}"

        async def call() -> None:
            outcome = Outcome(kind, key)
            await self._end(outcome, self._send(kind, key, reports))
            self._check(outcome)

        return call

    def _send(self, kind: str, key: str, progress: Any = None) -> Awaitable[Any]:
        client = self._client
        if kind == "list":
            return client.list_tools(use_cache=False)
        if kind == "read":
            return client.read_resource("chaos://x", use_cache=False)
        if kind == "prompt":
            return client.get_prompt("x")
        if kind == "ping":
            return client.request("tools/list" if self._peer.is_stateless else "ping")
        retry = {"bake again": True, "taste once": False}.get(kind)
        return client.call_tool(kind.partition(" ")[0], {"key": key}, retry=retry, progress=progress)

    async def _end(self, outcome: Outcome, awaitable: Awaitable[Any]) -> None:
        """Wait for the end of a call, which must be a result or a clear error."""
        task = asyncio.ensure_future(awaitable)
        try:
            done, _ = await asyncio.wait((task,), timeout=self.longest)
            require(done, f"{outcome.kind} does not end, after {self._peer.faults}")
        except asyncio.CancelledError:
            task.cancel()
            done, _ = await asyncio.wait((task,), timeout=self.longest)
            require(done, f"{outcome.kind} does not end when it is cancelled, after {self._peer.faults}")
            outcome.was_cancelled = True
        if task.cancelled():
            require(outcome.was_cancelled, f"{outcome.kind} was cancelled, after {self._peer.faults}")
            outcome.error = asyncio.CancelledError()
        else:
            outcome.error = task.exception()
            if outcome.error is None and outcome.kind in MAY_REPEAT:
                require(task.result().text == outcome.key, f"the answer to another call: {task.result()}")
        self._check_error(outcome)
        self.figures["results" if outcome.error is None else type(outcome.error).__name__] += 1

    def _check_error(self, outcome: Outcome) -> None:
        error = outcome.error
        if error is None or isinstance(error, asyncio.CancelledError):
            return
        clear = (ProtocolError, TransportError, TimeoutError, *((ConnectionError,) * self._is_closed))
        require(
            isinstance(error, clear) and str(error),
            f"{outcome.kind} ends with {error!r}, after {self._peer.faults}",
        )

    def _check(self, outcome: Outcome) -> None:
        """Hold the end of a call against what the server has done."""
        if outcome.kind not in MAY_REPEAT:
            return
        done = self._peer.done[outcome.key]
        problem = f"{outcome.kind} was done {done} times and ended with {outcome.error!r}, after {self._peer.faults}"
        may_repeat = MAY_REPEAT[outcome.kind]
        require(done <= (TRIES if may_repeat else 1), f"done twice: {problem}")
        require(done or outcome.error is not None, f"lost: {problem}")
        if done > 1:
            self.figures["done twice, as it may"] += 1
        if isinstance(outcome.error, OutcomeUnknownError):
            is_forgotten = outcome.kind in {"taste", "clean"} and self._peer.lives > 1  # the tool's hints
            require(not may_repeat or is_forgotten, problem)
        elif isinstance(outcome.error, TransportError):
            require(may_repeat or not done, f"not begun, by the error: {problem}")
            require(may_repeat or not outcome.error.may_have_begun, problem)

    # Afterwards

    async def _check_recovery(self) -> None:
        """Ask the same client once more, now that nothing goes wrong any more."""
        self._server.recover()
        await asyncio.sleep(100)  # what began before that has ended
        outcome = Outcome("read", "")
        await self._end(outcome, self._send("read", ""))
        require(outcome.error is None, f"it does not go on: {outcome.error!r}, after {self._peer.faults}")
        await asyncio.sleep(60)  # streams are joined again
        for kind in ("bake", "ask"):
            # What was said twice lies on its connection, and is taken for what comes next there: for no answer to it.
            for number in range(self._peer.faults.count("twice") + 1):
                outcome = Outcome(kind, f"{kind} afterwards {number}")
                await self._end(outcome, self._send(kind, outcome.key))
                self._check(outcome)
                if not isinstance(outcome.error, OutcomeUnknownError):
                    break
            require(outcome.error is None, f"it does not go on: {outcome.error!r}, after {self._peer.faults}")
        if not self._peer.is_stateless and self._wants_log:
            require(self._peer.log_level == "warning", f"the log level is lost, after {self._peer.faults}")


def run_block(seeds: Iterable[int], *, checks_leaks: bool = True) -> Counter[str]:
    figures: Counter[str] = Counter()
    with no_leaks() if checks_leaks else nullcontext(print) as complain:
        for seed in seeds:
            figures += Round(seed, complain).run()
    return figures


def require(condition: object, wrong: str) -> None:
    """Raise FaultError unless a condition holds."""
    if not condition:
        raise FaultError(wrong)
