"""Unusual definitions of components: each is served, or refused where it is registered with a cure in the message."""

# ruff: noqa: UP007, UP045 - the old spellings are tested on purpose
from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import inspect
import json
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union

import pydantic
import pytest
from jsonschema import Draft202012Validator
from pydantic import AliasPath, Field
from typing_extensions import Doc, NotRequired, TypedDict

from mcpkit import RegistrationError, Server
from mcpkit.testing import connect
from tests.helpers.tables import each_row

SURROGATE = "\ud83d"
CURES = ("use ", "write ", "give ", "remove ", "rename ", "decode ", "return ", "leave ", "replace ", "pass ")


@dataclasses.dataclass
class Option:
    """Metadata of another library: without a hash."""

    help: str = ""


class Unfriendly:
    """Metadata that cannot be compared or hashed."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = None  # type: ignore[assignment]  # as of a class with `__eq__` alone


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Model(pydantic.BaseModel):
    a: Annotated[int, Field(description="WORD-a")] = 1
    when: dt.date = dt.date(2024, 1, 1)


class Aliased(pydantic.BaseModel):
    a: Annotated[int, "WORD-a"] = Field(alias="$ref")


class Typed(TypedDict):
    a: Annotated[str, "WORD-a"]
    more: NotRequired[Annotated[int, Unfriendly()]]


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def circular() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


class Parameter(NamedTuple):
    """A parameter of a function: annotation, default and name."""

    annotation: Any = int
    default: Any = inspect.Parameter.empty
    name: str = "a"


def define(server: Server, kind: str, parameter: Parameter, **options: Any) -> list[Any]:
    """Register a component with one parameter; return a list to which each call adds its argument."""
    arguments: list[Any] = []

    def subject(**kwargs: Any) -> Any:
        arguments.extend(kwargs.values())
        return "done"

    name, annotation, default = parameter.name, parameter.annotation, parameter.default
    signed = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    subject.__signature__ = inspect.Signature([signed])  # type: ignore[attr-defined]  # of a function
    subject.__annotations__ = {name: annotation, "return": str}
    if kind == "template":
        server.resource(f"subject://it/{{{name}}}", **options)(subject)
    else:
        getattr(server, kind)(**options)(subject)
    return arguments


TYPES: list[tuple[Any, Any, Any]] = [
    (Any, [1], [1]), (dt.date, "2024-02-29", dt.date(2024, 2, 29)), (dt.timedelta, "P1D", dt.timedelta(1)),
    (decimal.Decimal, "1.5", decimal.Decimal("1.5")), (uuid.UUID, str(uuid.UUID(int=7)), uuid.UUID(int=7)),
    (bytes, "QQ==", b"A"), (Color, "red", Color.RED), (Literal["a", 1, None], 1, 1), (set[str], ["a"], {"a"}),
    (dict[str, int], {"default": 1}, {"default": 1}), (Optional[int], None, None), (Union[int, str], 5, 5),
    (list[Annotated[int, {"unit": "px"}]], [1], [1]), (dict[str, Annotated[int, Option()]], {"a": 1}, {"a": 1}),
    (Model, {"a": 2}, Model(a=2)), (Aliased, {"$ref": 2}, Aliased(**{"$ref": 2})), (Typed, {"a": "x"}, {"a": "x"}),
    *[(Annotated[int, each], 5, 5) for each in (
        {"unit": "px"}, {"a"}, Option(), object(), Unfriendly(), float("nan"), len, 10**400, ...,
        functools.partial(int), Doc("WORD-doc"), Field(description="WORD-field"), Field(title="WORD-title"),
        Field(examples=[1, "a", None]), "\x00\x1b[31mWORD\u2028\ufeff", "{WORD} %s {0} \\ud83d $ref",
    )],
]  # fmt: skip


@each_row(("annotation", "wire", "value"), TYPES)
async def test_definition_unusual_type_is_served(annotation: Any, wire: Any, value: Any) -> None:
    server = Server("s")
    arguments = define(server, "tool", Parameter(annotation))
    async with connect(server) as client:
        (tool,) = await client.list_tools()
        schema = tool["inputSchema"]
        Draft202012Validator.check_schema(schema)
        assert list(schema["properties"]) == ["a"]
        is_described = "WORD" in str(annotation) or annotation in (Model, Aliased, Typed)
        assert ("WORD" in json.dumps(schema)) is is_described
        result = await client.call_tool("subject", {"a": wire})
        assert not result.is_error, result.text
    assert arguments == [value]


DEFAULTS: list[Callable[[], Any]] = [
    *(lambda value=value: value for value in (  # type: ignore[misc]  # each has its value as a default
        10**5000, float("nan"), None, "\x00", SURROGATE, b"\xff\x00", dt.timedelta.max, decimal.Decimal("NaN"),
        Color.RED, object, len, ..., NotImplemented, 1j, range(3), frozenset({1}), pydantic.SecretStr("hidden"),
        memoryview(b"a"), {1: 2}, {1, "a"}, {SURROGATE: 1}, bytearray(b"\xff"),
    )),
    object, circular, lambda: nested(300), Model, lambda: Model.model_construct(a=object()), lambda: iter([1]),
]  # fmt: skip


@each_row("make", DEFAULTS)
async def test_definition_unusual_default_is_served(make: Callable[[], Any]) -> None:
    server = Server("s")
    define(server, "tool", Parameter(default=make()))
    define(server, "prompt", Parameter(str, default=make()))
    async with connect(server) as client:
        json.dumps([await client.list_tools(), await client.list_prompts()], allow_nan=False).encode()
        assert not (await client.call_tool("subject")).is_error
        await client.get_prompt("subject")


@each_row(("kind", "parameter", "options"), [
    ("tool", Parameter(Annotated[int, SURROGATE]), {}), ("tool", Parameter(Annotated[int, Doc(SURROGATE)]), {}),
    ("tool", Parameter(Annotated[int, Field(examples=[float("nan")])]), {}),
    ("tool", Parameter(Annotated[int, Field(json_schema_extra={"x": SURROGATE})]), {}),
    ("tool", Parameter(Annotated[int, Field(alias=SURROGATE)]), {}),
    ("tool", Parameter(Annotated[int, Field(validation_alias=AliasPath("a", "b"))]), {}),
    ("tool", Parameter(Annotated[list, Field(default=nested(5000))]), {}),
    ("template", Parameter(str, name="größe"), {}), ("tool", Parameter(), {"title": SURROGATE}),
    ("prompt", Parameter(str), {"description": SURROGATE}),
])  # fmt: skip
def test_definition_wrong_is_refused(kind: str, parameter: Parameter, options: dict[str, Any]) -> None:
    with pytest.raises(RegistrationError) as caught:
        define(Server("s"), kind, parameter, **options)
    message = str(caught.value)
    assert "subject" in message
    assert any(cure in message.lower() for cure in CURES), message
    message.encode()  # it can be printed
