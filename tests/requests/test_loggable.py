"""Log and progress messages of any Python values, which never end the call that sends them."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import logging
import os
import random
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from mcpkit import Context, LogHandler, Server
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))


class Hostile:
    """A value of which nothing can be said."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


class Unnamed:
    def __repr__(self) -> Any:
        return 5


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    value: Any = None


class Endless(dict[str, Any]):
    def items(self) -> Any:
        raise KeyError("items")


SCALARS = [
    *("plain", "caf\udce9.txt", "\ud83d\ude00 in two halves", "\0\n\u2028", "", "x" * 5000),
    *(None, True, 0, -1, 2**63, 10**400, -(10**400), 10**5000, 1.5, 1e308, float("nan"), float("inf"), -0.0),
    *(b"ok", b"\xff", bytearray(b"\xff"), memoryview(b"x"), int, len, ..., NotImplemented, 1j, object()),
    *(ValueError("x"), OSError(2, "caf\udce9"), KeyError(), BaseException("base"), StopIteration(3)),
    *(Hostile(), Unnamed(), Model(value=object()), Model(value="caf\udce9"), Model(value=1), Endless(a=1)),
    *(
        dt.datetime(2026, 1, 1),
        decimal.Decimal("NaN"),
        decimal.Decimal("1e9999"),
        logging.getLogger("x"),
    ),
    *(
        iter([1]),
        range(3),
        {1, 2},
        frozenset({"a"}),
        {1: 2, None: 3, (1, 2): 4, "caf\udce9": 5},
    ),
]


def drawn(draw: random.Random, depth: int = 0) -> Any:
    """A value: one of the scalars, or a group of values; deep, long or within itself."""
    kind = draw.random()
    if depth > 4 or kind < 0.5:
        return draw.choice(SCALARS)
    values = [drawn(draw, depth + 1) for _ in range(draw.randrange(4))]
    if kind < 0.55:
        return tuple(values)
    if kind < 0.6:
        values.append(values)
    elif kind < 0.8:
        keys = (draw.choice(["a", "caf\udce9", 1, None, Hostile(), (1,)]) for _ in values)
        return dict(zip(keys, values, strict=True))
    elif kind < 0.85:
        deep: Any = values
        for _ in range(draw.choice((60, 200, 300, 5000))):
            deep = [deep] if draw.random() < 0.5 else {"deeper": deep}
        return deep
    return values


def is_json(value: Any) -> bool:
    """Whether every client can read a value: it has a short form in UTF-8, without what JSON does not know."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
        is_same = bool(json.loads(text) == value)
    except Exception:
        return False
    is_flat = text.count("[") + text.count("{") < 150
    return is_same and is_flat and all(abs(number) < 2**1023 for number in _numbers(value))


def _numbers(value: Any) -> list[float]:
    groups = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = [value] if isinstance(value, (int, float)) else []
    return [*own, *(number for each in groups for number in _numbers(each))]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("level", ["debug", None])
async def test_whatever_is_logged_the_call_has_its_result(revision: str, level: str | None) -> None:
    server = Server("logs")
    draw = random.Random(65)
    handler = LogHandler()
    log = logging.Logger("caf\udce9", "INFO")
    log.addHandler(handler)
    failed: list[Any] = []
    handler.handleError = failed.append  # type: ignore[method-assign]

    @server.tool
    async def say(ctx: Context) -> str:
        await ctx.info(value, logger=draw.choice([None, "files", "caf\udce9", value]))
        log.info("%s", "caf\udce9")
        return "done"

    @server.tool
    def say_in_thread(ctx: Context) -> str:
        ctx.sync.info(value)
        return "done"

    @server.tool
    async def tell(ctx: Context) -> str:
        await ctx.progress(1, 2, value)
        return "done"

    heard: list[Any] = []
    told: list[Any] = []
    wanted: dict[str, Any] = {} if level is None else {"log_level": level}
    async with connect(server, revision=revision) as client:
        if level is not None and revision == "2025-11-25":
            await client.set_log_level(level)
        for number in range(EXAMPLES):
            value = drawn(draw)
            name = draw.choice(["say", "say", "say_in_thread", "tell"])
            heard, told = [], []
            options = wanted if revision == "2026-07-28" else {}
            result = await client.call(name, progress=lambda *each: told.append(each), **options)
            assert result.text == "done", (number, value)
            heard = [each["params"] for each in client.notifications if each["method"].endswith("/message")]
            client.notifications.clear()
            if name == "tell":
                assert [type(each[2]) for each in told] == [str if value is not None else type(None)]
            elif level is not None:
                assert len(heard) == (2 if name == "say" else 1), (number, value, heard)
                if is_json(value):
                    assert heard[0]["data"] == value, number
                if isinstance(value, BaseException) and value.args == ("x",):
                    assert heard[0]["data"] == "ValueError('x')"
    assert failed == []
