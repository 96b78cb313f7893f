"""Unusual definitions of components: each is served, or refused where it is registered with a cure in the message."""

# ruff: noqa: UP007, UP045 - the old spellings are tested on purpose
import dataclasses
import datetime as dt
import decimal
import functools
import inspect
import json
import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union

import pydantic
import pytest
from jsonschema import Draft202012Validator
from pydantic import AliasPath, AnyUrl, Field
from typing_extensions import Doc, NotRequired, TypedDict

from mcpkit import ProtocolError, RegistrationError, Server
from mcpkit.testing import TestClient, connect
from tests.helpers.schema_cases import Color
from tests.helpers.tables import each_row
from tests.helpers.uri_expansion import expand

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


# Spellings of URIs that clients send: those that name the same resource, as pydantic and JavaScript write them


REVISIONS = ("2025-11-25", "2026-07-28")


def variants(uri: str) -> list[str]:
    """Return the spellings that clients may send of a URI, that of pydantic among them."""
    url = str(AnyUrl(uri))
    return sorted({uri, url, *other_spellings(uri), *other_spellings(url)})


def other_spellings(uri: str) -> set[str]:
    """Return a URI with escapes, scheme and, of http and https, host in either case."""
    scheme, separator, rest = uri.partition("://")
    small, large = (re.sub("%..", lambda each: change(each[0]), uri) for change in (str.lower, str.upper))
    found = {large, small, f"{scheme.upper()}{separator}{rest}", f"{scheme.lower()}{separator}{rest}"}
    if scheme.lower() in ("http", "https"):
        end = re.search(r"[/?#]|\Z", rest)
        assert end is not None
        host = rest[: end.start()].rpartition("@")[2]
        found.add(uri.replace(host, host.upper(), 1) if host.isascii() else uri)
    return found


async def read(client: TestClient, uri: str) -> Any:
    """Return text and URI of a resource, or None where there is none."""
    try:
        [contents] = await client.read_resource(uri)
    except ProtocolError as error:
        if "Resource not found" not in str(error):
            raise
        return None
    return contents["text"], contents["uri"]


URIS = [
    "notes://", "notes://café/é?q=é", "Data.x+y://Example.COM/B/%2F#frag", "HTTPS://münchen.Example/é/%c3%A9",
    "https://Example.COM", "https://h:443/crêpes/日本?a='b'&c=%e2", "http://h:8080/x%2fy/~'()", "http://u:p@h/ab:c",
    "http://[::1]/@/...", "file:///a/B/é", "file://server/.x/%41?x#ü", "ftp://h/a//b", "notes://h:80/a",
]  # fmt: skip


async def test_uri_spelling_of_resource_is_read() -> None:
    server = Server("spellings")
    for uri in URIS:
        server.resource(uri)(make_function(uri))
    for revision in REVISIONS:
        async with connect(server, protocol_version=revision) as client:
            for uri in URIS:
                for spelled in variants(uri):
                    assert await read(client, spelled) == (uri, spelled)


@each_row(("template", "values"), [
    ("notes://café/{one}", {"one": "Été"}), ("HTTPS://Example.com/{one}/{two}", {"one": "A b", "two": "x'y"}),
    ("file:///a/É-{one}.TXT", {"one": "日"}), ("https://münchen.Example/x{/one}", {"one": "UPPER"}),
    ("http://h:80/{+one}", {"one": "a/b"}), ("Data.x+y://h/x{?one,two}", {"one": "%", "two": "a&b=c"}),
    ("notes://h:8080/{one}#é", {"one": "a"}),
])  # fmt: skip
async def test_uri_spelling_of_template_is_read(template: str, values: dict[str, str]) -> None:
    uri = expand(template, values)
    server = Server("spellings")

    @server.resource(template)
    async def resource(one: str = "", two: str = "") -> list[str]:
        return [one, two]

    async with connect(server) as client:
        pair = [values["one"], values.get("two", "")]
        expected = json.dumps(pair, ensure_ascii=False, separators=(",", ":"))
        for spelled in variants(uri):
            assert await read(client, spelled) == (expected, spelled)


def make_function(text: str) -> Callable[[], Awaitable[str]]:
    """Return a resource's function."""

    async def resource() -> str:
        return text

    return resource


@each_row(("registered", "other"), [
    ("notes://a/b", "notes://a%2Fb"), ("notes://a/b%2Fc", "notes://a/b/c"),
    ("notes://a/b", "notes://a/x/../b"), ("notes://a/x/../b", "notes://a/b"),
    ("https://h/a/%2e%2e/b", "https://h/b"), ("notes://Host/a", "notes://host/a"),
    ("ftp://Host/a", "ftp://HOST/a"), ("file://Host/a", "file://HOST/a"),
    ("https://h/Docs", "https://h/docs"), ("https://h/a", "https://h/a/"), ("https://h:80/", "https://h/"),
    ("http://user@h/", "http://USER@h/"), ("notes://caf\u00e9", "notes://cafe\u0301"),
    ("notes://a/A", "notes://a/%41"), ("notes://a", "notes://a/"), ("https://{host}.x/A", "https://h.x/a"),
])  # fmt: skip
async def test_uri_other_resource_is_not_found(registered: str, other: str) -> None:
    server = Server("spellings")
    server.resource(registered, name="page")((lambda host: host) if "{" in registered else (lambda: "found"))
    async with connect(server) as client:
        assert await read(client, other) is None


@each_row(("first", "second", "function"), [
    ("notes://café", "notes://caf%c3%a9", lambda: ""), ("https://Example.com", "https://example.com/", lambda: ""),
    ("https://h:443/é", "https://h/%C3%A9", lambda: ""), ("HTTP://{host}", "http://{host}/", lambda host: ""),
    ("notes://é/{Name}", "notes://%C3%A9/{Name}", lambda Name: ""),
])  # fmt: skip
def test_uri_duplicate_spelling_is_refused(first: str, second: str, function: Any) -> None:
    server = Server("spellings")
    server.resource(first, name="first")(function)
    with pytest.raises(RegistrationError, match=f"'{re.escape(first)}'.* are two spellings of the same URI"):
        server.resource(second, name="second")(function)
    part = server.catalog.resource_templates if "{" in first else server.catalog.resources
    part.remove(first)
    server.resource(second, name="second")(function)


async def test_uri_spelling_in_subscription() -> None:
    server = Server("spellings")
    for uri in ("notes://x/café", "https://Example.com"):
        server.resource(uri)(make_function(""))

    @server.resource("notes://t/é/{name}")
    def item(name: str) -> str:
        return name

    watched = ["notes://x/caf%c3%a9", "https://EXAMPLE.com/", "notes://t/%c3%A9/N", "notes://t/%C3%A9/{name}"]
    for revision in REVISIONS:
        async with (
            connect(server, protocol_version=revision) as client,
            client.listen(resource_subscriptions=watched) as changes,
        ):
            received: list[str | None] = []
            for uri in ("notes://x/café", "https://Example.com", "notes://t/é/N", "notes://t/é/other"):
                server.notify_resource_updated(uri)
                received.append((await anext(changes)).uri)
            assert received == [*watched[:3], "notes://t/é/other"]
