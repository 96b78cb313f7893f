"""What authors write: a definition works over the wire, or it is refused where it is registered.

The definitions are drawn at random; see drawn_definitions.py. A refusal names component and parameter and says what to
do. A list is never broken by one of its entries, and no text is lost.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import re
import threading
import warnings
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import pydantic
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import Field

from mcpkit import Ask, RegistrationError, Server
from mcpkit.testing import connect
from tests.helpers.drawn_definitions import (
    DEFAULTS,
    SURROGATE,
    Argument,
    Leaf,
    Model,
    Part,
    arguments,
    leaves,
    metadata,
    structures,
    texts,
    wire_names,
    word,
)

DRAWN = settings(
    max_examples=int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200")),
    deadline=None,
    derandomize=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
pytestmark = pytest.mark.timeout(7200)
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
    *("return ", "leave ", "make ", "Make ", "replace ", "Replace ", "Correct ", "change ", "define "),
)
KINDS = ("tool", "prompt", "resource template", "resource")


class Definition(NamedTuple):
    """A drawn component.

    Args:
        kind: What it is.
        options: What its decorator gets.
        arguments: The parameters of its function.
        docstring: Its docstring.
        returns: The annotation of its result.
        is_good: Whether it must be accepted.
        words: What its listed form must contain.
        blamed: The parameter that a refusal must name.
    """

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
        docstring, is_text_good, said = draw(docstrings(unique))
        is_good &= is_text_good
        words += [] if "description" in options else said
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
            said = word()
            lines.append(f"    {draw(st.sampled_from(['', '- ', '1. ']))}{each.parameter.name}: {said}")
            if each.parameter.annotation is each.leaf.annotation:  # else a text in `Annotated` may win
                words.append(said)
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
    """Check that a refusal was right, names the place and says what to do."""
    message = str(error)
    assert not is_good, f"refused: {message}"
    assert [name for name in names if name not in message] == [], f"no place: {message}"
    assert any(cure in message for cure in CURES), f"no cure: {message}"
    message.encode()  # it can be printed


async def check_wire(
    server: Server, definition: Definition, calls: list[dict[str, Any]], revision: str
) -> None:
    async with connect(server, revision=revision) as client:
        lists: dict[str, Callable[[], Any]] = {
            "tool": client.list_tools,
            "prompt": client.list_prompts,
            "resource": client.list_resources,
            "resource template": client.list_resource_templates,
        }
        assert "healthy" in [each["name"] for each in await client.list_tools()]
        listed = await lists[definition.kind]()
        entry = listed[-1]
        assert entry["name"] == "subject"
        written = json.loads(json.dumps(entry, ensure_ascii=False).encode())
        text = json.dumps(written, ensure_ascii=False)
        shown = [each for each in definition.words if each not in text]
        if revision >= "2025-06-18" or definition.kind == "tool":  # before, only tools had a place for titles
            assert not shown, (shown, written)
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
            result = await client.call("subject", values)
            if definition.returns is str:
                assert not result.is_error, result.text
        elif definition.kind == "prompt":
            await client.get_prompt("subject", values)
        elif definition.kind == "resource" or values is full:
            from urllib.parse import quote

            path = "".join(f"/{quote(values[each.name], safe='')}" for each in definition.arguments)
            await client.read(f"subject://it{path}")
        else:
            continue
        received = calls.pop()
        for each in definition.arguments:
            if each.name in values and each.leaf.python is not inspect.Parameter.empty:
                assert received[each.parameter.name] == each.leaf.python


@DRAWN
@given(definitions(), REVISIONS)
def test_a_definition_works_over_the_wire_or_is_refused_where_it_is_registered(
    definition: Definition, revision: str
) -> None:
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


@st.composite
def json_schemas(draw: st.DrawFn) -> tuple[Any, bool, list[str]]:
    """Draw an `input_schema=`: a JSON Schema, or names with types."""
    names = draw(st.lists(wire_names, min_size=1, max_size=3, unique=True))
    is_good, words, members = True, [], {}
    is_mapping = draw(st.booleans())
    for name in names:
        text = draw(texts())
        default = draw(st.sampled_from(DEFAULTS))()
        has_default = draw(st.integers(0, 3)) == 0 and not is_mapping
        if is_mapping:
            members[name] = Annotated[draw(st.sampled_from([int, str, list[int]])), text.value]
        else:
            members[name] = {"type": ["string", "integer"], "description": text.value}
            members[name] |= {"default": default} if has_default else {}
        is_good &= text.is_good and SURROGATE not in name and not has_default
        words += text.words
    if is_mapping:
        return members, is_good and "type" not in members and "$schema" not in members, words
    return {"type": "object", "properties": members}, is_good, words


@DRAWN
@given(json_schemas(), REVISIONS)
def test_an_input_schema_works_over_the_wire_or_is_refused_where_it_is_registered(
    drawn: tuple[Any, bool, list[str]], revision: str
) -> None:
    schema, is_good, words = drawn
    server = Server("drawn")

    def subject(arguments: dict[str, Any]) -> str:
        return "done"

    try:
        server.tool(input_schema=schema)(subject)
    except RegistrationError as error:
        check_message(error, is_good, "input_schema")
        return

    async def check() -> None:
        async with connect(server, revision=revision) as client:
            (entry,) = await client.list_tools()
            written = json.dumps(json.loads(json.dumps(entry, allow_nan=False)), ensure_ascii=False)
            assert [each for each in words if each not in written] == []

    asyncio.run(check())


@DRAWN
@given(
    structures(is_form=True),
    texts(),
    st.sampled_from(["2025-06-18", "2025-11-25", "2026-07-28"]),
)
def test_a_question_works_over_the_wire_or_is_refused_where_it_is_registered(
    leaf: Leaf, message: Part, revision: str
) -> None:
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
    asked: list[str] = []

    def answer(_method: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append(json.dumps(json.loads(json.dumps(params, allow_nan=False)), ensure_ascii=False))
        return {"action": "accept", "content": leaf.wire}

    async def check() -> None:
        async with connect(server, revision=revision, answers=answer) as client:
            result = await client.call("subject", {})
            if not asked:  # a revision that has no words for it
                assert "cannot be asked" in result.text, result.text
                return
            assert [each for each in (*leaf.words, *message.words) if each not in asked[0]] == []
            assert not result.is_error, result.text
            assert received

    asyncio.run(check())


@DRAWN
@given(texts(), st.sampled_from(["name", "title", "version", "instructions", "website_url"]), REVISIONS)
def test_a_text_of_the_server_arrives_or_is_refused_at_once(text: Part, option: str, revision: str) -> None:
    try:
        server = Server(**{"name": "drawn", option: text.value})
    except RegistrationError as error:
        check_message(error, text.is_good, option)
        return

    async def check() -> None:
        async with connect(server, revision=revision) as client:
            written = json.dumps([client.server_info, client.instructions], ensure_ascii=False)
            if option in ("name", "version", "instructions"):  # the others are newer
                assert text.words[0] in written

    asyncio.run(check())


DEEP: list[Any] = functools.reduce(lambda inner, _: [inner], range(5000), [])


class Deep(pydantic.BaseModel):
    a: int = 1
    extra: Any = DEEP


class Locked(NamedTuple):
    extra: Any = [threading.Lock()]


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (list[Deep], ["Deep"]),
        (Annotated[list[Locked], "text"], ["Locked"]),
        (Annotated[Model, Field(default=DEEP)], []),
        (Annotated[list[int], Field(default=[threading.Lock()])], []),
    ],
)
def test_a_default_that_calls_cannot_copy_is_refused_where_it_is_registered(
    hint: Any, words: list[str]
) -> None:
    def subject(query: Any) -> str:
        return "done"

    subject.__annotations__["query"] = hint
    with pytest.raises(RegistrationError) as error:
        Server("drawn").tool(subject)
    check_message(error.value, False, "subject", "query", *words)
    # How much room there is on the stack decides whether pydantic or the copy fails first.
    assert re.search("Use a `default_factory`|change the type", str(error.value))


@pytest.mark.parametrize("options", [{}, {"alias": "q"}])
def test_a_default_that_cannot_be_written_leaves_an_argument_of_a_class_optional(options: Any) -> None:
    server = Server("drawn")

    def subject(query: Any) -> str:
        assert query == 10**5000
        return "done"

    subject.__annotations__["query"] = Annotated[Model, Field(default=10**5000, **options)]
    server.tool(subject)

    async def check() -> None:
        async with connect(server) as client:
            assert (await client.call("subject", {})).text == "done"

    asyncio.run(check())
