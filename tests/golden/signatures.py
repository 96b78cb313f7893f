"""Signatures of tools, what is listed for them, and what becomes of arguments; and registrations that are refused."""

from __future__ import annotations

import datetime as dt
import enum
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypedDict, TypeVar, Union
from uuid import UUID

import annotated_types
from pydantic import AnyUrl, BaseModel, Field

from mcpkit import Access, Context, Server, TaskOptions, ToolAnnotations
from mcpkit.testing import connect
from mcpkit.types import Email, Uri
from tests.golden.streams import normal

T = TypeVar("T")


class Color(enum.Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Size:
    width: int
    height: int = 1


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Options(TypedDict, total=False):
    deep: bool
    names: list[str]


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = Field(9, ge=1, description="Lives that are left")


class Dog(BaseModel):
    kind: Literal["dog"]
    friend: Optional[Dog] = None  # noqa: UP045 - an old spelling on purpose


class Box(BaseModel, Generic[T]):
    item: T
    tags: set[str] = set()


LEAVES: list[Any] = [
    int, float, str, bool, bytes, Any, None, Decimal, UUID, dt.date, dt.time, dt.datetime, dt.timedelta, AnyUrl, Email,
    Uri, Color, Level, Size, Pair, Options, Cat, Dog, Box[int], Literal["a", "b"], Literal[1, "x", None], dict, list,
    Annotated[int, Field(ge=0, lt=10)], Annotated[str, Field(pattern="^[a-z]+$")],
    Annotated[int, annotated_types.Gt(3)],
    Annotated[str, Field(min_length=2, max_length=4, description="A code")], Annotated[float, Field(multiple_of=0.5)],
    Annotated[Cat | Dog, Field(discriminator="kind")], Annotated[list[int], Field(min_length=1, max_length=2)],
]  # fmt: skip
VALUES: list[Any] = [
    0, 1, 2.5, -3, "1", "a", "abc", "", "red", True, None, [], [1], ["a", 1], {}, {"width": 1}, {"kind": "dog"},
    {"item": 1, "tags": ["x", "x"]}, "2026-01-02", "2026-01-02T03:04:05Z", "P1D", "not-a-date", 1e300, 2**70, "[1, 2]",
    "https://example.com/", "ada@example.com", "6f1c1a4e-9f5b-4d55-a6d0-2f5b1b4a6a0e", {"deep": "yes"}, [[1], [2]],
]  # fmt: skip
NAMES = ("count", "query", "item", "options", "when")


def annotation(random: Random, depth: int = 0) -> Any:
    """Return a random annotation."""
    if depth == 2 or random.random() < 0.5:
        return random.choice(LEAVES)
    first, second = annotation(random, depth + 1), annotation(random, depth + 1)
    wrap: Callable[[], Any] = random.choice(
        [
            lambda: list[first],
            lambda: dict[str, first],
            lambda: tuple[first, second],
            lambda: tuple[first, ...],
            lambda: Optional[first],  # noqa: UP045 - of values
            lambda: Union[first, second],  # noqa: UP007 - of values
        ]
    )
    return wrap()


def function(random: Random, number: int) -> Callable[..., Any]:
    """Return a function with a random signature, which returns its first argument."""

    async def run(**arguments: Any) -> Any:
        return next(iter(arguments.values()), None)

    parameters = []
    for name in NAMES[: random.randint(1, 3)]:
        default = random.choice(
            [inspect.Parameter.empty, inspect.Parameter.empty, None, random.choice(VALUES)]
        )
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation(random)
            )
        )
    returned = random.choice([inspect.Signature.empty, parameters[0].annotation, annotation(random)])
    signature = inspect.Signature(parameters, return_annotation=returned)
    run.__name__ = f"tool_{number}"
    run.__doc__ = f"Run number {number}.\n\nArgs:\n    {NAMES[0]}: The first argument.\n"
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    if returned is not inspect.Signature.empty:
        run.__annotations__["return"] = returned
    return run


async def record_signatures(numbers: range) -> AsyncIterator[tuple[str, list[str]]]:
    """Yield for each signature what is listed, or why it is refused, and the results of some calls."""
    for number in numbers:
        random = Random(number)
        server = Server("signatures")
        tool = function(random, number)
        name = f"signature {number}"
        try:
            server.tool(tool)
        except Exception as error:
            yield name, [normal(f"{type(error).__name__}: {error}")]
            continue
        async with connect(server) as client:
            (listed,) = await client.list_tools()
            results = [json.dumps(listed, sort_keys=True)]
            for _ in range(3):
                arguments = {each: random.choice(VALUES) for each in inspect.signature(tool).parameters}
                result = await client.call_tool(tool.__name__, arguments)
                text = json.dumps(
                    [result.is_error, result.structured_content, result.content], sort_keys=True
                )
                results.append(f"{json.dumps(arguments)} -> {normal(text)}")
            yield name, results


def registrations() -> Iterator[tuple[str, Callable[[Server], Any]]]:
    """Yield registrations that are refused, by name."""

    def positional(first: int, /) -> None: ...
    def unhinted(first) -> None: ...  # type: ignore[no-untyped-def]
    def variadic(*first: int) -> None: ...
    def keywords(**first: int) -> None: ...
    def unknown(first: object) -> None: ...
    def returns_object() -> asyncio_object: ...  # type: ignore[name-defined]  # noqa: F821
    def fine(first: int) -> int: ...  # type: ignore[empty-body]
    def two_contexts(first: Context, second: Context) -> None: ...
    def bad_default(first: Annotated[int, Field(ge=3)] = 1) -> None: ...
    def bad_pattern(first: Annotated[str, Field(pattern="(")]) -> None: ...

    for tool in (
        positional,
        unhinted,
        variadic,
        keywords,
        unknown,
        returns_object,
        two_contexts,
        bad_default,
        bad_pattern,
    ):
        yield f"tool {tool.__name__}", lambda server, tool=tool: server.tool(tool)
    options: list[dict[str, Any]] = [
        {"name": ""}, {"name": "a b"}, {"name": "x" * 200}, {"name": 3}, {"titel": "x"}, {"title": 3},
        {"timeout": -1}, {"timeout": "1"}, {"timeout": float("nan")}, {"access": "admin"},
        {"access": Access(scopes=["admin"])},
        {"annotations": {"readOnly": True}}, {"annotations": ToolAnnotations(read_only=True, destructive=True)},
        {"input_schema": {"type": "array"}}, {"input_schema": {"type": "object", "properties": 3}},
        {"output_schema": {"type": "string"}}, {"task": "always"}, {"task": TaskOptions()}, {"run_in": "cloud"},
        {"meta": {1: 2}}, {"icons": ["x"]}, {"concurrency": 0}, {"description": 3},
    ]  # fmt: skip
    for each in options:
        yield f"tool options {each}", lambda server, each=each: server.tool(**each)(fine)
    uris = [
        "",
        "note",
        "note://{",
        "note://{a}{b}",
        "note://{a}/{a}",
        "note://{a:x}",
        "note://{first}",
        "note://{+first*}",
        3,
    ]
    for uri in uris:
        yield f"resource {uri!r}", lambda server, uri=uri: server.resource(uri)(fine)
    for name in ("", "a b", None):
        yield f"prompt {name!r}", lambda server, name=name: server.prompt(name=name)(variadic)
    servers: list[dict[str, Any]] = [
        {"name": ""}, {"name": 3}, {"version": 1}, {"secret_key": "short"}, {"secret_key": []}, {"limits": {}},
        {"timeouts": -1}, {"timeouts": "1"}, {"storage": "redis"}, {"scopes": ["a"]}, {"lifespan": 3},
        {"auth": "token"}, {"tasks": "later"}, {"icons": "x"}, {"website_url": 3}, {"options": {}},
    ]  # fmt: skip
    for each in servers:
        yield (
            f"server {each}",
            lambda _, each=each: Server(
                each.get("name", "refused"), **{k: v for k, v in each.items() if k != "name"}
            ),
        )

    def twice(server: Server) -> None:
        server.tool(fine)
        server.tool(fine)

    yield "tool twice", twice


def record_registrations() -> Iterator[tuple[str, list[str]]]:
    """Yield the error of each registration, or that there was none."""
    for name, register in registrations():
        try:
            register(Server("registrations"))
        except Exception as error:
            yield normal(name), [normal(f"{type(error).__name__}: {error}")]
        else:
            yield normal(name), ["registered"]
