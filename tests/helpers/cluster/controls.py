"""Engines that lack a guarantee each, so that it is seen that the scenarios find out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

import redis

from mcpkit import Redis


def engine(url: str, control: str) -> Redis:
    """Return the engine, or one of those that lack something."""
    return {"": Redis, "unfenced": Unfenced, "hasty": Hasty, "pubsub": ByPubSub}[control](url)


class Unfenced(Redis):
    """Takes what is written of a job from whoever has had it at some time, and tells nobody that it is lost."""

    async def change(
        self, key: str, value: bytes, *, version: str, fence: int | None = None, **more: Any
    ) -> str | None:
        if fence is None:
            return await super().change(key, value, version=version, **more)
        return await asyncio.shield(self._change(key, value, **more))

    async def _change(self, key: str, value: bytes, **more: Any) -> str | None:
        while (job := await self.look(key)) is not None:
            if (changed := await super().change(key, value, version=job.version, **more)) is not None:
                return changed
            if await self.look(key) == job:
                return None  # it has ended
        return None

    async def renew(self, leases: Mapping[str, tuple[int, float]]) -> set[str]:
        await super().renew(leases)
        return set()


class Hasty(Redis):
    """Says that a job is there a second before it is."""

    _later: set[asyncio.Task[Any]] = set()

    async def add(self, key: str, value: bytes, **more: Any) -> Any:
        async def later() -> None:
            await asyncio.sleep(1)
            await super(Hasty, self).add(key, value, **more)

        task = asyncio.ensure_future(later())
        self._later.add(task)
        task.add_done_callback(self._later.discard)
        return "added"


class ByPubSub(Redis):
    """Tells the others by Pub/Sub, which does not know what somebody has missed."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._client = redis.Redis.from_url(url, socket_timeout=2, protocol=2)
        self._heard: dict[object, tuple[str, Callable[[str], None]]] = {}
        self._thread: threading.Thread | None = None
        self._is_up = threading.Event()

    async def publish(self, topic: str, message: str) -> None:
        try:
            await asyncio.to_thread(self._client.publish, f"bus:{topic}", message)
        except redis.RedisError as error:
            raise ConnectionError(str(error)) from error

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        key = object()
        self._heard[key] = (topic, listener)
        if self._thread is None:
            self._thread = threading.Thread(target=self._read, daemon=True)
            self._thread.start()
        return lambda: self._heard.pop(key, None) and None

    async def listening(self) -> None:
        await asyncio.to_thread(self._is_up.wait, 5)

    def _read(self) -> None:
        while True:
            try:
                with self._client.pubsub() as reader:
                    reader.psubscribe("bus:*")
                    self._is_up.set()
                    while True:
                        self._tell(reader.get_message(ignore_subscribe_messages=True, timeout=1))
            except redis.RedisError:
                threading.Event().wait(0.1)

    def _tell(self, message: Any) -> None:
        if message is not None:
            topic = message["channel"].decode().removeprefix("bus:")
            for heard, listener in list(self._heard.values()):
                if heard == topic:
                    listener(message["data"].decode())
