"""What `help()`, an editor and `inspect` say of what authors call: every option, its type and its meaning."""

from __future__ import annotations

import inspect
import os
import pydoc
from collections.abc import Callable, Iterator
from typing import Any

import docstring_parser
import pytest

import mcpkit
from mcpkit import Extension, Method, Prompt, Resource, ResourceTemplate, Server, Tool
from mcpkit.components.function import FunctionOptions
from tests.helpers.language_server import Editor, editor

FREE = {"tool": mcpkit.tool, "resource": mcpkit.resource, "prompt": mcpkit.prompt}
DECORATORS: dict[str, tuple[Callable[..., Any], tuple[type, ...]]] = {
    "tool": (Server.tool, (Tool,)),
    "resource": (Server.resource, (Resource, ResourceTemplate)),
    "prompt": (Server.prompt, (Prompt,)),
    "method": (Server.method, (Method,)),
}
CALLED = {
    **{f"Server.{name}": decorator for name, (decorator, _) in DECORATORS.items()},
    **{f"mcpkit.{name}": decorator for name, decorator in FREE.items()},
    "Server": Server,
    "Server.run": Server.run,
    "Server.asgi": Server.asgi,
    "Server.include": Server.include,
    "Server.extension": Server.extension,
    "Extension.method": Extension.method,
}
PROGRAM = """
from mcpkit import Server, prompt, resource, tool

server = Server("shown")
extension = server.extension("com.example/x")
server.include(extension)
server.asgi()
server.run()

@server.tool
def one() -> None: ...

@server.resource("a://b")
def two() -> str: ...

@server.prompt(title="Three")
def three() -> str: ...

@server.method("x/do")
def four() -> None: ...

@extension.method("x/do")
def five() -> None: ...

@tool(name="six")
def six() -> None: ...

@resource("a://{b}")
def seven(b: str) -> str: ...

@prompt
def eight() -> str: ...
"""


def parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return {name: each for name, each in inspect.signature(function).parameters.items() if name != "self"}


def meanings(function: Any) -> dict[str, str]:
    params = docstring_parser.parse(inspect.getdoc(function) or "").params
    return {each.arg_name: " ".join((each.description or "").split()) for each in params}


@pytest.mark.parametrize("name", CALLED)
def test_every_option_has_a_name_and_a_meaning(name: str) -> None:
    found = parameters(CALLED[name])
    told = meanings(CALLED[name])
    assert not [each for each in found.values() if each.kind in {each.VAR_KEYWORD, each.VAR_POSITIONAL}]
    assert [each for each in found if not told.get(each)] == []
    assert not [text for text in told.values() if text.startswith("See")]


@pytest.mark.parametrize("name", FREE)
def test_free_of_any_server_the_options_are_the_same(name: str) -> None:
    assert parameters(FREE[name]) == parameters(DECORATORS[name][0])
    assert inspect.getdoc(FREE[name]) == inspect.getdoc(DECORATORS[name][0])


@pytest.mark.parametrize("name", DECORATORS)
def test_a_decorator_has_the_options_of_what_it_makes(name: str) -> None:
    decorator, makes = DECORATORS[name]
    made = {
        option
        for each in makes
        for option, parameter in inspect.signature(each).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    common = FunctionOptions.__annotations__.keys() - ({"single_use"} if name == "method" else set())
    options = [each.name for each in parameters(decorator).values() if each.kind is each.KEYWORD_ONLY]
    assert set(options) == made | common


def test_what_all_have_means_the_same_of_each() -> None:
    _, *others = [decorator for decorator, _ in DECORATORS.values()]
    for option in FunctionOptions.__annotations__.keys() - {"replace"}:  # which speaks of names or of URIs
        for other in others:
            if option in parameters(other):
                assert parameters(other)[option] == parameters(Server.tool)[option]
                assert meanings(other)[option] == meanings(Server.tool)[option]


@pytest.mark.parametrize("name", CALLED)
def test_help_shows_the_signature_and_the_meanings(name: str) -> None:
    shown = pydoc.render_doc(CALLED[name], renderer=pydoc.plaintext)
    for option in parameters(CALLED[name]):
        assert f"{option}: " in shown
    assert "**options" not in shown


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    if os.environ.get("MCPKIT_TEST_NODE") == "0":
        pytest.skip("left out on purpose: MCPKIT_TEST_NODE=0")
    with editor(tmp_path_factory.mktemp("editor")) as found:
        found.open("server.py", PROGRAM)
        yield found


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("@server.tool", "Server.tool"),
        ("@server.resource", "Server.resource"),
        ("@server.prompt", "Server.prompt"),
        ("@server.method", "Server.method"),
        ("@extension.method", "Extension.method"),
        ("@tool", "mcpkit.tool"),
        ("@resource", "mcpkit.resource"),
        ("@prompt", "mcpkit.prompt"),
        ("server.asgi", "Server.asgi"),
        ("server.run", "Server.run"),
        ("server.include", "Server.include"),
        ("server.extension", "Server.extension"),
        ("server = Server", "Server"),
    ],
)
def test_an_editor_shows_every_option_with_its_meaning(shown: Editor, words: str, name: str) -> None:
    text = " ".join(shown.hover(words).split())
    assert "**options" not in text
    for option, meaning in meanings(CALLED[name]).items():
        if option in parameters(CALLED[name]):
            assert f" {option}: " in text.partition("Args:")[0]
            assert meaning in text


def test_a_mark_says_that_it_takes_the_place_of_another() -> None:
    server = Server("shop")

    @server.tool
    def price() -> int:
        return 1

    @mcpkit.tool(name="price", replace=True)
    def newer() -> int:
        return 2

    server.include(newer)
    assert server.tools["price"].function is newer


def test_what_is_no_switch_is_refused() -> None:
    with pytest.raises(mcpkit.RegistrationError, match="replace is True or False, got 'yes'"):
        Server("shop").tool(lambda: 1, name="x", replace="yes")  # type: ignore[arg-type]  # the mistake
