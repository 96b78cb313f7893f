"""The tools that every peer serves: ordinary typed functions, written once."""

from __future__ import annotations

import asyncio
import linecache
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ARGUMENTS = {"first": 40, "second": 2.5, "label": "sum"}
TEXT = "sum: 42.5"
STRUCTURED = {"label": "sum", "total": 42.5}
STATE = "bench://state"
BRIEF = 30.0  # seconds that an idle session lives in the figures on endurance
LET_GO = threading.Event()


@dataclass
class Sum:
    label: str
    total: float


async def add(first: int, second: float, label: str) -> str:
    """Add two numbers and name their sum.

    Args:
        first: The first number, a whole one.
        second: The second number.
        label: What to call the sum.
    """
    return f"{label}: {first + second}"


def add_sync(first: int, second: float, label: str) -> str:
    """Add two numbers and name their sum, in a plain function.

    Args:
        first: The first number, a whole one.
        second: The second number.
        label: What to call the sum.
    """
    return f"{label}: {first + second}"


async def add_structured(first: int, second: float, label: str) -> Sum:
    """Add two numbers and return their sum as an object.

    Args:
        first: The first number, a whole one.
        second: The second number.
        label: What to call the sum.
    """
    return Sum(label, first + second)


async def state() -> str:
    """The resource that the streams are subscribed to."""
    return "quiet"


async def wait_for_hours() -> str:
    """Answer after an hour, unless cancelled."""
    await asyncio.sleep(3600)
    return "ended"


def block() -> str:
    """Occupy a thread until GET /let-go."""
    LET_GO.wait(60)
    return "ended"


_TEMPLATE = '''
async def tool_{n:03d}(
    query: str,
    limit: int = {n},
    threshold: float = 0.5,
    tags: Optional[list[str]] = None,
    order: Literal["newest", "oldest", "best"] = "best",
) -> str:
    """Search collection {n} and return the records that match best.

    Words are matched without regard to case; records that were deleted are left out.

    Args:
        query: What to look for, in plain words.
        limit: The largest number of records to return.
        threshold: The lowest score that a record may have, from 0 to 1.
        tags: Only records that carry all of these tags.
        order: Which records come first.
    """
    return query
'''


def numbered_tools(count: int) -> list[Callable[..., Any]]:
    """Return `count` documented functions, each compiled from source of its own as an author's would be."""
    source = "from typing import Literal, Optional\n" + "".join(_TEMPLATE.format(n=n) for n in range(count))
    filename = "<numbered_tools>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "numbered_tools"}
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)
    return [namespace[f"tool_{n:03d}"] for n in range(count)]


def chosen(argv: list[str]) -> tuple[list[Callable[..., Any]], bool]:
    """Return the functions that the command line asks for, and whether their results are structured."""
    kind = argv[1] if len(argv) > 1 else "basic"
    if kind == "basic":
        return [add, add_sync], False
    if kind == "structured":
        return [add_structured], True
    return numbered_tools(int(kind)), False
