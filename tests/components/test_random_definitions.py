"""Random definitions of components: each works over the wire, or it is refused where it is registered.

A refusal names the component and the parameter and says what to write. No text of an accepted definition is lost.
"""

# ruff: noqa: UP007, UP045 - the old spellings are tested on purpose
from __future__ import annotations

import asyncio
import copy
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import inspect
import json
import keyword
import re
import uuid
import warnings
from collections.abc import Callable
from itertools import count
from typing import Annotated, Any, Literal, NamedTuple, Optional, Union
from urllib.parse import quote

import pydantic
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import AliasChoices, AliasPath, Field
from typing_extensions import Doc, NotRequired, TypedDict

from mcpkit import Ask, RegistrationError, Server
from mcpkit.testing import connect

pytestmark = pytest.mark.timeout(7200)

SURROGATE = "\ud83d"


SCHEMA_KEYWORDS = [
    *("format", "default", "examples", "enum", "const", "type", "properties", "required", "items", "title"),
    *("description", "pattern", "minimum", "anyOf", "additionalProperties", "ref", "defs", "value", "result"),
]


_numbers = count(1)


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


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Leaf(NamedTuple):
    """A type with a value of it, on the wire and in Python."""

    annotation: Any
    wire: Any
    python: Any
    is_text: bool = False
    words: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    """The text of the class: a nearer description takes its place."""
    is_good: bool = True


LEAVES = [
    Leaf(str, "x", "x", is_text=True), Leaf(int, 5, 5), Leaf(float, 1.5, 1.5), Leaf(bool, True, True),
    Leaf(Any, [1], [1]), Leaf(dt.date, "2024-02-29", dt.date(2024, 2, 29), is_text=True),
    Leaf(dt.datetime, "2024-02-29T10:00:00Z", dt.datetime(2024, 2, 29, 10, tzinfo=dt.timezone.utc), is_text=True),
    Leaf(dt.timedelta, "P1D", dt.timedelta(1), is_text=True),
    Leaf(decimal.Decimal, "1.5", decimal.Decimal("1.5"), is_text=True),
    Leaf(uuid.UUID, str(uuid.UUID(int=7)), uuid.UUID(int=7), is_text=True),
    Leaf(bytes, "QQ==", b"A", is_text=True), Leaf(Color, "red", Color.RED, is_text=True),
    Leaf(Level, 2, Level.HIGH), Leaf(Literal["a", "b"], "b", "b", is_text=True),
    Leaf(Literal[1, "a", None], 1, 1), Leaf(list[int], [1], [1]), Leaf(set[str], ["a"], {"a"}),
    Leaf(dict[str, int], {"default": 1}, {"default": 1}), Leaf(Optional[int], None, None),
    Leaf(Union[int, str], 5, 5), Leaf(list[Annotated[int, {"unit": "px"}]], [1], [1]),
    Leaf(dict[str, Annotated[int, Option()]], {"a": 1}, {"a": 1}),
]  # fmt: skip


class Part(NamedTuple):
    """A drawn part: the value, whether it must be accepted, and the words in it that clients must get."""

    value: Any
    is_good: bool = True
    words: tuple[str, ...] = ()


def word() -> str:
    return f"WORD{next(_numbers)}X"


@st.composite
def texts(draw: st.DrawFn) -> Part:
    """Draw a text with a unique word in it."""
    unique = word()
    shape = draw(st.sampled_from(TEXT_SHAPES))
    text = shape(unique)
    return Part(text, SURROGATE not in text, (unique,))


TEXT_SHAPES: list[Callable[[str], str]] = [
    *([lambda unique: unique] * 6), lambda unique: f"\x00\x1b[31m{unique}\x7f\u2028\ufeff",
    lambda unique: f"\N{PARTY POPPER} \u202e{unique} é\u0301",
    lambda unique: f"{{{unique}}} %s {{0}} \\ud83d $ref", lambda unique: f"\n\n\t{unique}\r\n",
    lambda unique: f"{unique}{SURROGATE}", lambda unique: f"{SURROGATE}\ude00{unique}",
]  # fmt: skip


identifiers = st.sampled_from([
    *(name for name in SCHEMA_KEYWORDS if not keyword.iskeyword(name)),
    *("query", "_private", "größe", "名前", "x" * 300, "self", "cls", "kwargs", "function", "model_config", "json"),
])  # fmt: skip


wire_names = st.one_of(
    identifiers,
    st.sampled_from(["from", "class", "None", "$ref", "$filter", "content-type", "a.b", "a/b~c", "", " ", "\x00", "é",
                     "__proto__", "constructor", SURROGATE, "\N{PARTY POPPER}", "#/$defs/x", "[0]", "%2F"]),
)  # fmt: skip


@st.composite
def metadata(draw: st.DrawFn) -> Part:
    """Draw metadata of `Annotated`."""
    kind = draw(st.integers(0, 12))
    text = draw(texts())
    plain = [{"unit": "px"}, ["a"], {"a"}, Option(), object(), Unfriendly(), float("nan"), len, int, bytearray(b"a"),
             10**400, ..., functools.partial(int), (), {}.keys()]  # fmt: skip
    if kind < 7:
        return Part(draw(st.sampled_from(plain)))
    if kind == 7:
        return text
    if kind == 8:
        return Part(Doc(text.value), text.is_good, text.words)
    if kind == 9:
        return Part(Field(description=text.value), text.is_good, text.words)
    if kind == 10:
        return Part(Field(title=text.value), text.is_good, text.words)
    if kind == 11:
        examples, is_good = draw(st.sampled_from(FIELD_EXAMPLES))
        return Part(Field(examples=examples), is_good)
    return Part(Field(json_schema_extra={"x-note": text.value}), text.is_good)


FIELD_EXAMPLES: list[tuple[Any, bool]] = [
    ([1, "a", None], True), ([dt.date(2024, 1, 1), b"\xff", decimal.Decimal("1.5"), Color.RED, {1, 2}], False),
    ([float("nan")], False), ([object()], False), ([SURROGATE], False), ([10**400], False),
]  # fmt: skip


class Model(pydantic.BaseModel):
    a: int = 1
    when: dt.date = dt.date(2024, 1, 1)


def _circular() -> list[Any]:
    result: list[Any] = []
    result.append(result)
    return result


def _deep(levels: int) -> list[Any]:
    result: list[Any] = []
    for _ in range(levels):
        result = [result]
    return result


class Broken:
    """A default that raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


class Text(str):
    """A string that is none of JSON's own."""


DEFAULTS: list[Callable[[], Any]] = [
    *(lambda value=value: value for value in (  # type: ignore[misc]  # each has its value as a default
        0, -1, 2**53 + 1, 2**63, -(2**64), 10**400, 10**5000, -0.0, 1e308, float("nan"), float("inf"), 1e-320, True,
        None,
        "", "a", "\x00", SURROGATE, "é" * 1000, b"", b"\xff\x00", dt.date(2024, 1, 1), dt.datetime(1, 1, 1),
        dt.datetime.max, dt.time(1), dt.timedelta.max, dt.timedelta(-1), decimal.Decimal("NaN"),
        decimal.Decimal("1E+400"),
        Color.RED, Level.LOW, Color, object, len, ..., NotImplemented, 1j, range(3), frozenset({1}), (), (1, "a"),
        uuid.UUID(int=1), Option("a"), Text("a"), type, pydantic.SecretStr("hidden"), Ellipsis, slice(1),
        memoryview(b"a"),
    )),
    dict, lambda: {"a": [1, {"b": None}]}, lambda: {1: 2}, lambda: {None: 1}, lambda: {(1, 2): 3}, list,
    lambda: [float("inf")], lambda: {1, "a"}, object, _circular, lambda: _deep(300), lambda: _deep(5000), Broken, Model,
    lambda: Model.model_construct(a=object()), lambda: iter([1]), lambda: (each for each in [1]), lambda: [SURROGATE],
    lambda: {SURROGATE: 1}, lambda: bytearray(b"\xff"), lambda: [10**400], lambda: {"a": 10**5000},
]  # fmt: skip


@st.composite
def leaves(draw: st.DrawFn) -> Leaf:
    if draw(st.integers(0, 2)):
        return draw(st.sampled_from(LEAVES))
    return draw(structures())


@st.composite
def structures(draw: st.DrawFn, *, is_form: bool = False) -> Leaf:
    """Draw a class with fields and a value of it; its words are in its texts.

    Args:
        draw: Of Hypothesis.
        is_form: Whether its value is that of a form, which is flat most of the time.
    """
    kind = draw(st.sampled_from(["model", "dataclass", "TypedDict", "NamedTuple"]))
    names = wire_names.filter(lambda name: SURROGATE not in name)
    if kind != "TypedDict":
        names = identifiers.filter(lambda name: not name.startswith(("_", "model_")) and name != "json")
    fields: dict[str, Any] = {}
    wire: dict[str, Any] = {}
    about = word()
    words: list[str] = []
    is_good = True
    inner_leaves = st.sampled_from(LEAVES[:8] if is_form else LEAVES)
    is_aliased = kind == "model" and draw(st.booleans())
    for name in draw(st.lists(names, min_size=1, max_size=3, unique=True)):
        inner = draw(structures() if draw(st.integers(0, 5 if is_form else 3)) == 0 else inner_leaves)
        annotation: Any = inner.annotation
        words += inner.words
        is_good &= inner.is_good
        shape = draw(st.integers(0, 4))
        words += inner.about if shape > 1 else ()
        match shape:
            case 0:
                words.append(word())
                annotation = Annotated[annotation, words[-1]]
            case 1:
                words.append(word())
                annotation = Annotated[annotation, Field(description=words[-1])]
            case 2:
                annotation = Annotated[annotation, draw(st.sampled_from([Option(), {"a": 1}, Unfriendly()]))]
        fields[name] = annotation
        wire[f"{name}-alias" if is_aliased else name] = inner.wire
    # Fields with defaults come last: dataclasses and NamedTuples want it so. To pydantic `...` is not a default.
    defaults = {"extra": draw(st.sampled_from(DEFAULTS))()} if draw(st.booleans()) else {}
    if defaults.get("extra") is ...:
        defaults = {}
    fields |= dict.fromkeys(defaults, int)
    is_good &= not any(map(_is_deep, defaults.values()))
    if kind in ("model", "NamedTuple"):
        is_good &= all(map(_is_copied, defaults.values()))
    if kind == "model":
        cls: Any = pydantic.create_model("Thing", __doc__=about, **{
            name: (annotation, Field(defaults.get(name, ...), alias=f"{name}-alias" if is_aliased else None))
            for name, annotation in fields.items()
        })  # fmt: skip
    elif kind == "dataclass":
        made = [(name, each, dataclasses.field(**_default(defaults, name))) for name, each in fields.items()]
        cls = dataclasses.make_dataclass("Thing", made, namespace={"__doc__": about})
    elif kind == "TypedDict":
        cls = TypedDict("Thing", {**fields, **dict.fromkeys(defaults, NotRequired[int])})
        cls.__doc__ = about
    else:
        cls = NamedTuple("Thing", list(fields.items()))
        cls.__new__.__defaults__ = tuple(defaults.values())
        cls._field_defaults = defaults
        cls.__doc__ = about
        value = wire if is_form else [*wire.values()]
        return Leaf(cls, value, inspect.Parameter.empty, words=tuple(words), about=(about,), is_good=is_good)
    return Leaf(cls, wire, inspect.Parameter.empty, words=tuple(words), about=(about,), is_good=is_good)


def _is_deep(default: Any) -> bool:
    """Return whether a default is nested so deeply that the stack may overflow."""
    levels = 0
    while type(default) is list and default and levels <= 100:
        default, levels = default[0], levels + 1
    return levels > 100


def _is_copied(default: Any) -> bool:
    """Return whether a default can be used for each call: it has a hash, or it can be copied."""
    try:
        return bool(type(default).__hash__) or copy.deepcopy(default) is not None
    except RecursionError:
        return False


def _default(defaults: dict[str, Any], name: str) -> dict[str, Any]:
    if name not in defaults:
        return {}
    value = defaults[name]
    # dataclasses refuse what has no hash.
    return {"default": value} if type(value).__hash__ else {"default_factory": lambda: value}


@dataclasses.dataclass(frozen=True, repr=False)
class Argument:
    """A random parameter.

    Args:
        parameter: As it stands in the signature.
        name: Its name on the wire.
        leaf: Its type, with a value.
        is_good: Whether it must be accepted.
        words: What its texts say.
    """

    parameter: inspect.Parameter
    name: str
    leaf: Leaf
    is_good: bool
    words: tuple[str, ...]

    def __repr__(self) -> str:
        try:
            return repr(self.parameter)
        except (RecursionError, ValueError):  # of a default that is very deep, or a number that is very long
            return self.name


@st.composite
def arguments(draw: st.DrawFn, *, of_texts: bool = False) -> Argument:
    """Draw a parameter; for a prompt or a template, one of a text."""
    name = draw(identifiers)
    leaf = draw(st.sampled_from([each for each in LEAVES if each.is_text]) if of_texts else leaves())
    parts = draw(st.lists(metadata(), max_size=3))
    is_good = leaf.is_good and all(part.is_good for part in parts)
    published = name
    default: Any = inspect.Parameter.empty
    added: list[Any] = []
    if draw(st.integers(0, 3)) == 0:
        published = draw(wire_names)
        form = draw(st.integers(0, 3))
        added = [[Field(alias=published)], [Field(validation_alias=published)],
            [Field(validation_alias=AliasChoices(AliasPath("a", 1), published, "other"))],
            [Field(validation_alias=AliasPath(published))]][form]  # fmt: skip
        is_good &= SURROGATE not in published and published != ""
    if draw(st.integers(0, 25)) == 0:
        added = [Field(validation_alias=AliasPath("a", "b"))]
        published, is_good = name, False
    if draw(st.booleans()):
        default = draw(st.sampled_from(DEFAULTS))()
        if draw(st.integers(0, 4)) == 0:
            written = default
            added.append(draw(st.sampled_from([
                lambda: Field(default=written), lambda: Field(default_factory=lambda: written),
                lambda: Field(default_factory=lambda data: written),
            ]))())  # fmt: skip
            is_good &= added[-1].default_factory is not None or _is_copied(written)
            default = inspect.Parameter.empty
    annotation: Any = leaf.annotation
    values = [*(part.value for part in parts), *added]
    if values:
        annotation = Annotated[(annotation, *values)]
    parameter = inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
    # Of several descriptions the last one counts, and so does that of several titles.
    words = [(type(part.value).__name__, getattr(part.value, "title", None), part.words) for part in parts]
    counted = (*_counted(words), *leaf.words, *(() if any(part.words for part in parts) else leaf.about))
    return Argument(parameter, published, leaf, is_good, counted)


def _counted(words: list[tuple[str, Any, tuple[str, ...]]]) -> tuple[str, ...]:
    return words[0][2] if len(words) == 1 else ()


DRAWN = settings(derandomize=True, phases=[Phase.generate, Phase.shrink])


REVISIONS = st.sampled_from(["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])


CURES = (
    *(
        "use ",
        "Use ",
        "write ",
        "Write ",
        "give ",
        "Give ",
        "remove ",
        "Remove ",
        "rename ",
        "Rename ",
        "decode ",
    ),
    *(
        "return ",
        "leave ",
        "make ",
        "Make ",
        "replace ",
        "Replace ",
        "Correct ",
        "change ",
        "define ",
        "move ",
        "Pass ",
        "pass ",
        "Keep ",
    ),
)


KINDS = ("tool", "prompt", "resource template", "resource")


class Definition(NamedTuple):
    """A random component; `is_good` if it must be accepted; a refusal must name `blamed`."""

    kind: str
    options: dict[str, Any]
    arguments: list[Argument]
    docstring: str | None
    returns: Any
    is_good: bool
    words: tuple[str, ...]
    blamed: tuple[str, ...]


@st.composite
def definitions(draw: st.DrawFn) -> Definition:
    kind = draw(st.sampled_from(KINDS))
    of_texts = kind in ("prompt", "resource template")
    drawn = [] if kind == "resource" else draw(st.lists(arguments(of_texts=of_texts), max_size=3))
    unique = list({each.parameter.name: each for each in drawn}.values())
    names = [each.name for each in unique]
    bad = [each.parameter.name for each in unique if not each.is_good]
    is_good = len(set(names)) == len(names)
    if kind == "resource template":
        is_good &= all(re.fullmatch("[A-Za-z0-9_]+", name) for name in names)
    if not unique and kind == "resource template":
        kind = "resource"
    options: dict[str, Any] = {}
    words = [each for argument in unique for each in argument.words] if kind in ("tool", "prompt") else []
    for option in ("title", "description"):
        if draw(st.integers(0, 2)) == 0:
            text: Part = draw(texts())
            options[option], is_good = text.value, is_good and text.is_good
            words += text.words
    docstring = None
    if draw(st.booleans()):
        docstring, is_text_good, arg_words = draw(docstrings(unique))
        is_good &= is_text_good
        words += [] if "description" in options else arg_words
    returns: Any = str
    if kind == "tool" and draw(st.booleans()):
        result = draw(leaves())
        returns, is_good = result.annotation, is_good and result.is_good
        if parts := draw(st.lists(metadata(), max_size=1)):
            returns = _annotated(returns, parts)
            is_good &= parts[0].is_good
    blamed = tuple(bad) if is_good and len(bad) == 1 else ()
    return Definition(kind, options, unique, docstring, returns, is_good and not bad, tuple(words), blamed)


def _annotated(annotation: Any, parts: list[Part]) -> Any:
    return Annotated[(annotation, *(part.value for part in parts))]


@st.composite
def docstrings(draw: st.DrawFn, drawn: list[Argument]) -> tuple[str, bool, list[str]]:
    text = draw(texts())
    lines, words = [text.value], list(text.words)
    if any(each.leaf.about for each in drawn):
        return "\n".join(lines), text.is_good, words
    if drawn and draw(st.booleans()):
        lines += ["", "Args:"]
        for each in drawn:
            arg_words = word()
            lines.append(f"    {draw(st.sampled_from(['', '- ', '1. ']))}{each.parameter.name}: {arg_words}")
            if each.parameter.annotation is each.leaf.annotation:  # else a text in `Annotated` may win
                words.append(arg_words)
        words.append(word())
        lines.append(f"    unknown: {words[-1]}")
    return "\n".join(lines), text.is_good, words


def register(server: Server, definition: Definition) -> list[dict[str, Any]]:
    """Register the component; return a list to which each call adds its arguments."""
    calls: list[dict[str, Any]] = []

    def subject(**kwargs: Any) -> Any:
        calls.append(kwargs)
        return "done"

    parameters = [each.parameter for each in definition.arguments]
    subject.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # of a function
    subject.__annotations__ = {each.name: each.annotation for each in parameters} | {
        "return": definition.returns
    }
    subject.__doc__ = definition.docstring
    subject.__kwdefaults__ = None
    if definition.kind == "tool":
        server.tool(**definition.options)(subject)
    elif definition.kind == "prompt":
        server.prompt(**definition.options)(subject)
    else:
        variables = "".join(f"/{{{each.name}}}" for each in definition.arguments)
        server.resource(f"subject://it{variables}", **definition.options)(subject)
    return calls


def check_message(error: RegistrationError, is_good: bool, *names: str) -> None:
    """Check that a refusal was right, names the place and a remedy."""
    message = str(error)
    assert not is_good, f"refused: {message}"
    assert [name for name in names if name not in message] == [], f"no place: {message}"
    assert any(cure in message for cure in CURES), f"no cure: {message}"
    message.encode()  # it can be printed


async def check_wire(
    server: Server, definition: Definition, calls: list[dict[str, Any]], revision: str
) -> None:
    async with connect(server, protocol_version=revision) as client:
        lists: dict[str, Callable[[], Any]] = {"tool": client.list_tools, "prompt": client.list_prompts,
            "resource": client.list_resources, "resource template": client.list_resource_templates}  # fmt: skip
        assert "healthy" in [each["name"] for each in await client.list_tools()]
        listed = await lists[definition.kind]()
        entry = listed[-1]
        assert entry["name"] == "subject"
        written = json.loads(json.dumps(entry, ensure_ascii=False).encode())
        text = json.dumps(written, ensure_ascii=False)
        missing = [each for each in definition.words if each not in text]
        if revision >= "2025-06-18" or definition.kind == "tool":  # before, only tools had a place for titles
            assert not missing, (missing, written)
        if definition.kind == "tool":
            Draft202012Validator.check_schema(written["inputSchema"])
            assert list(written["inputSchema"]["properties"]) == [each.name for each in definition.arguments]
            Draft202012Validator.check_schema(written.get("outputSchema", {}))
        await check_calls(client, definition, calls)


async def check_calls(client: Any, definition: Definition, calls: list[dict[str, Any]]) -> None:
    full = {each.name: each.leaf.wire for each in definition.arguments}
    few = {
        each.name: each.leaf.wire
        for each in definition.arguments
        if each.parameter.default is inspect.Parameter.empty
    }
    for values in (full, few):
        if definition.kind == "tool":
            result = await client.call_tool("subject", values)
            if definition.returns is str:
                assert not result.is_error, result.text
        elif definition.kind == "prompt":
            await client.get_prompt("subject", values)
        elif definition.kind == "resource" or values is full:
            path = "".join(f"/{quote(values[each.name], safe='')}" for each in definition.arguments)
            await client.read_resource(f"subject://it{path}")
        else:
            continue
        received = calls.pop()
        for each in definition.arguments:
            if each.name in values and each.leaf.python is not inspect.Parameter.empty:
                assert received[each.parameter.name] == each.leaf.python


@DRAWN
@given(definitions(), REVISIONS)
def test_random_definition_works_or_is_refused(definition: Definition, revision: str) -> None:
    server = Server("drawn")

    @server.tool
    def healthy() -> str:
        return "healthy"

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calls = register(server, definition)
    except RegistrationError as error:
        check_message(error, definition.is_good, "subject", *definition.blamed)
        return
    asyncio.run(check_wire(server, definition, calls, revision))


@DRAWN
@given(structures(is_form=True), texts(), st.sampled_from(["2025-06-18", "2025-11-25", "2026-07-28"]))
def test_random_question_works_or_is_refused(leaf: Leaf, message: Part, revision: str) -> None:
    server = Server("drawn")
    received: list[Any] = []

    def subject(form: Any) -> str:
        received.append(form)
        return "done"

    subject.__annotations__ = {"form": Annotated[leaf.annotation, Ask(message.value)], "return": str}
    try:
        server.tool(subject)
    except RegistrationError as error:
        check_message(error, False, "subject", "form")
        return
    requests: list[str] = []

    def answer(_method: str, params: dict[str, Any]) -> dict[str, Any]:
        requests.append(json.dumps(json.loads(json.dumps(params, allow_nan=False)), ensure_ascii=False))
        return {"action": "accept", "content": leaf.wire}

    async def check() -> None:
        async with connect(server, protocol_version=revision, request_handler=answer) as client:
            result = await client.call_tool("subject", {})
            if not requests:  # a revision that has no words for it
                assert "cannot be asked" in result.text, result.text
                return
            assert [each for each in (*leaf.words, *message.words) if each not in requests[0]] == []
            assert not result.is_error, result.text
            assert received

    asyncio.run(check())
