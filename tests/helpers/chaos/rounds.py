"""One round: a client asks a server whose faults are drawn, and how each call has ended is held against what was done.

A round is drawn from its seed alone. What is done twice may be done twice; what has a result was done; whatever else
happens is an error that says so. Afterwards the same client goes on, and nothing is left over.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from mcpkit import Client, OutcomeUnknownError, ProtocolError, TransportError
from mcpkit.client.asking.forms import FormRequest
from tests.helpers.chaos.hasty import HastyLoop, run
from tests.helpers.chaos.http_peer import HttpPeer
from tests.helpers.chaos.left_over import nothing_left
from tests.helpers.chaos.peer import HANDSHAKE, OLDEST, STATELESS, Peer
from tests.helpers.chaos.pipe_peer import PipePeer

PIPE, POSTS, SESSIONS, SSE = "pipe", "stateless HTTP", "HTTP with sessions", "HTTP with SSE"
WAYS = (PIPE, POSTS, SESSIONS, SSE)
TRIES = 3
ROUNDS = 2
"""Requests of a call of `ask`: the second has the answer."""
MAY_REPEAT = {
    "bake": False,
    "bake again": True,
    "taste": True,
    "taste once": False,
    "clean": True,
    "ask": False,
}
WITHOUT_EFFECTS = ("list", "read", "prompt", "ping")


class WrongError(AssertionError):
    """A promise is broken."""


@dataclass
class Ended:
    """How a call has ended.

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
        way: How the server is reached.
        complain: Called with what an event loop complains of.

    Attributes:
        figures: What has happened, counted.
    """

    seed: int
    way: str
    complain: Callable[[Any], object]
    figures: Counter[str] = field(default_factory=Counter)
    timeout: ClassVar[float] = 20.0
    longest: ClassVar[float] = 3000.0
    """Seconds within which each call has ended, whatever happens: time that passes at once."""
    naps: ClassVar[Sequence[float]] = (0.001, 0.05, 1, 30)

    def play(self) -> Counter[str]:
        """Play it, and return its figures.

        Raises:
            WrongError: A promise is broken.
        """
        random.seed(self.seed)
        loop = HastyLoop(self.complain)
        try:
            run(self._main(), loop)
        except BaseException as error:
            raise WrongError(f"seed {self.seed}, {self.way}: {error!r}") from error
        self.figures["rounds"] += 1
        return self.figures

    async def _main(self) -> None:
        await asyncio.wait_for(self._play(), 20 * self.longest)
        await asyncio.sleep(0)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        require(not left, f"tasks are left: {left}")

    async def _play(self) -> None:
        draw = self._draw = Random(self.seed)
        revision = {
            PIPE: draw.choice([STATELESS, HANDSHAKE]),
            POSTS: STATELESS,
            SESSIONS: HANDSHAKE,
            SSE: OLDEST,
        }
        self._peer = Peer(draw, revision[self.way], draw.choice([1, 1, 2, 3, 6, 12]))
        if self.way == PIPE:
            self._server: PipePeer | HttpPeer = PipePeer(self._peer)
            await self._use(self._server)
            return
        server = self._server = HttpPeer(self._peer, has_sse=self.way == SSE)
        await server.start()
        try:
            await self._use(server.target())
        finally:
            await server.close()

    async def _use(self, target: Any) -> None:
        draw, peer = self._draw, self._peer
        log_level = draw.choice([None, "warning"])
        self._wants_log = log_level is not None
        self._client = client = Client(
            target,
            elicit=self._answer,
            timeout=self.timeout,
            log_level=log_level,
            tries=TRIES,
        )
        peer.is_armed = draw.random() < 0.2
        await self._enter()
        before = asyncio.all_tasks()
        try:
            await self._ask_amid_faults()
            peer.is_armed = False
            await self._go_on()
        finally:
            await client.close()
        left = asyncio.all_tasks() - before
        require(not left or self.way != PIPE, f"tasks are left once the client has been closed: {left}")
        self.figures["faults"] += len(peer.faults)
        self.figures["lives of the server"] += peer.lives

    def _answer(self, form: FormRequest) -> Any:
        return {field.name: True for field in form.fields}

    async def _enter(self) -> None:
        for _ in range(30):
            ended = Ended("enter", "")
            await self._end(ended, self._client.__aenter__())
            if ended.error is None:
                ended = Ended("list", "")
                await self._end(ended, self._client.list_tools())
                if ended.error is None:
                    return
            await asyncio.sleep(1)
        raise WrongError(f"it could not be entered: {ended.error!r}")

    # Faults

    async def _ask_amid_faults(self) -> None:
        draw, peer = self._draw, self._peer
        peer.is_armed = True
        calls = [self._drawn(number) for number in range(draw.choice([1, 1, 1, 2, 2, 4, 4, 8, 8, 64]))]
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

    def _drawn(self, number: int) -> Callable[[], Awaitable[None]]:
        draw = self._draw
        kind = draw.choice([*MAY_REPEAT, "bake", "bake", *WITHOUT_EFFECTS])
        reports = (lambda *_: None) if draw.random() < 0.3 else None
        key = f"{kind} {number}"

        async def call() -> None:
            ended = Ended(kind, key)
            await self._end(ended, self._asked(kind, key, reports))
            self._judge(ended)

        return call

    def _asked(self, kind: str, key: str, progress: Any = None) -> Awaitable[Any]:
        client = self._client
        if kind == "list":
            return client.list_tools(fresh=True)
        if kind == "read":
            return client.read("chaos://x", fresh=True)
        if kind == "prompt":
            return client.get_prompt("x")
        if kind == "ping":
            return client.request("tools/list" if self._peer.is_stateless else "ping")
        retry = {"bake again": True, "taste once": False}.get(kind)
        return client.call(kind.partition(" ")[0], {"key": key}, retry=retry, progress=progress)

    async def _end(self, ended: Ended, asked: Awaitable[Any]) -> None:
        """Wait for the end of what is asked, which must be a result or an error that says what is wrong."""
        task = asyncio.ensure_future(asked)
        try:
            done, _ = await asyncio.wait((task,), timeout=self.longest)
            require(done, f"{ended.kind} does not end, after {self._peer.faults}")
        except asyncio.CancelledError:
            task.cancel()
            done, _ = await asyncio.wait((task,), timeout=self.longest)
            require(done, f"{ended.kind} does not end when it is cancelled, after {self._peer.faults}")
            ended.was_cancelled = True
        if task.cancelled():
            require(ended.was_cancelled, f"{ended.kind} was cancelled by nobody, after {self._peer.faults}")
            ended.error = asyncio.CancelledError()
        else:
            ended.error = task.exception()
            if ended.error is None and ended.kind in MAY_REPEAT:
                require(task.result().text == ended.key, f"the answer to another call: {task.result()}")
        self._check_error(ended)
        self.figures[name_of(ended)] += 1

    def _check_error(self, ended: Ended) -> None:
        error = ended.error
        if error is None or isinstance(error, asyncio.CancelledError):
            return
        is_clear = isinstance(error, (ProtocolError, TransportError, TimeoutError)) or (
            self._is_closed and isinstance(error, ConnectionError)
        )
        require(is_clear and str(error), f"{ended.kind} ends with {error!r}, after {self._peer.faults}")

    def _judge(self, ended: Ended) -> None:
        """Hold the end of a call against what the server has done."""
        if ended.kind not in MAY_REPEAT:
            return
        done = self._peer.done[ended.key]
        said = f"{ended.kind} was done {done} times and ended with {ended.error!r}, after {self._peer.faults}"
        may_repeat = MAY_REPEAT[ended.kind]
        require(done <= (TRIES if may_repeat else 1), f"done twice: {said}")
        require(done or ended.error is not None, f"lost: {said}")
        if done > 1:
            self.figures["done twice, as it may"] += 1
        if isinstance(ended.error, OutcomeUnknownError):
            is_forgotten = ended.kind in {"taste", "clean"} and self._peer.lives > 1  # what the tool had said
            require(not may_repeat or is_forgotten or self._peer.revision == OLDEST, said)
        elif isinstance(ended.error, TransportError):
            require(may_repeat or not done, f"said not to have begun: {said}")
            require(may_repeat or not ended.error.may_have_begun, said)

    # Afterwards

    async def _go_on(self) -> None:
        """Ask the same client once more, now that nothing goes wrong any more."""
        self._server.recover()
        await asyncio.sleep(100)  # what began before that has ended
        ended = Ended("read", "")
        await self._end(ended, self._asked("read", ""))
        require(ended.error is None, f"it does not go on: {ended.error!r}, after {self._peer.faults}")
        await asyncio.sleep(60)  # streams are joined again
        for kind in ("bake", "ask"):
            # What was said twice lies on its connection, and is taken for what comes next there: for no answer to it.
            for number in range(self._peer.faults.count("twice") + 1):
                ended = Ended(kind, f"{kind} afterwards {number}")
                await self._end(ended, self._asked(kind, ended.key))
                self._judge(ended)
                if not isinstance(ended.error, OutcomeUnknownError):
                    break
            require(ended.error is None, f"it does not go on: {ended.error!r}, after {self._peer.faults}")
        if not self._peer.is_stateless and self._wants_log:
            require(self._peer.log_level == "warning", f"the log level is lost, after {self._peer.faults}")


def play_block(way: str, seeds: Iterable[int]) -> Counter[str]:
    """Play rounds of which nothing may be left over, and return their figures.

    Raises:
        AssertionError: A promise is broken; the message has the seed.
    """
    figures: Counter[str] = Counter()
    with nothing_left() as complain:
        for seed in seeds:
            figures += Round(seed, way, complain).play()
    return figures


def require(condition: object, wrong: str) -> None:
    """Say what is wrong unless a condition holds."""
    if not condition:
        raise WrongError(wrong)


def name_of(ended: Ended) -> str:
    """Return under which name an end is counted."""
    return "results" if ended.error is None else type(ended.error).__name__
