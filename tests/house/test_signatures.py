"""Every option of what authors call has a type and a description in `help()`, in `inspect` and in an editor."""

from __future__ import annotations

import ast
import inspect
import json
import os
import pydoc
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docstring_parser
import pytest

import mcpkit
from mcpkit import Extension, Prompt, Resource, ResourceTemplate, Server, Tool
from mcpkit.components.options import (
    FunctionOptions,
    MethodOptions,
    PromptOptions,
    ResourceOptions,
    ToolOptions,
)
from mcpkit.extensions import CustomMethod

FREE = {"tool": mcpkit.tool, "resource": mcpkit.resource, "prompt": mcpkit.prompt}
OPTIONS: dict[Any, tuple[type, ...]] = {
    ToolOptions: (Tool,),
    ResourceOptions: (Resource, ResourceTemplate),
    PromptOptions: (Prompt,),
    MethodOptions: (CustomMethod,),
}
CALLED = {
    **{f"Server.{name}": getattr(Server, name) for name in ("tool", "resource", "prompt", "method")},
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


def test_options_are_named_and_described_in_signature_and_help() -> None:
    faults = []
    for name, function in CALLED.items():
        options, descriptions = parameters(function), meanings(function)
        text = pydoc.render_doc(function, renderer=pydoc.plaintext)
        for option in options:
            if not descriptions.get(option):
                faults.append(f"{name}: {option} has no description")
            if f"{option}: " not in text:
                faults.append(f"{name}: help() does not show {option}")
    assert not faults, "\n".join(faults)


def test_decorators_have_the_options_of_their_components() -> None:
    for options, components in OPTIONS.items():
        expected = {
            option
            for component in components
            for option, parameter in inspect.signature(component).parameters.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        assert options.__annotations__.keys() == expected | FunctionOptions.__annotations__.keys(), options
    for name, function in FREE.items():
        assert parameters(function) == parameters(getattr(Server, name))
        assert inspect.getdoc(function) == inspect.getdoc(getattr(Server, name))


def test_options_of_decorators_are_described() -> None:
    source = Path(inspect.getfile(FunctionOptions)).read_text("utf-8")
    for definition in ast.parse(source).body:
        if isinstance(definition, ast.ClassDef) and definition.name.endswith("Options"):
            for member, after in zip(definition.body, [*definition.body[1:], None], strict=True):
                if isinstance(member, ast.AnnAssign) and definition.name != "ResultOptions":
                    assert isinstance(after, ast.Expr), f"{definition.name}.{ast.unparse(member.target)}"


class Editor:
    """An editor with one file open, through pyright's language server."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process: Any = process
        self._number = 0
        self._uri = (folder / "server.py").as_uri()
        self.request("initialize", processId=None, rootUri=folder.as_uri(), capabilities={})
        self._send({"method": "initialized", "params": {}})
        document = {"uri": self._uri, "languageId": "python", "version": 1, "text": PROGRAM}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": document}})

    def hover(self, words: str) -> str:
        """Return the text for the last of some words, at their first place."""
        before = PROGRAM[: PROGRAM.index(words) + len(words) - 1]
        position = {"line": before.count("\n"), "character": len(before) - before.rfind("\n") - 1}
        result = self.request("textDocument/hover", textDocument={"uri": self._uri}, position=position)
        return str(result["contents"]["value"])

    def completions(self, words: str) -> set[str]:
        """Return what the editor offers after some words, at their first place."""
        before = PROGRAM[: PROGRAM.index(words) + len(words)]
        position = {"line": before.count("\n"), "character": len(before) - before.rfind("\n") - 1}
        result = self.request("textDocument/completion", textDocument={"uri": self._uri}, position=position)
        return {item["label"] for item in result["items"]}

    def request(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message and "id" in message:
                self._send({"id": message["id"], "result": None})
            elif message.get("id") == self._number:
                return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        length = 0
        while (line := self._process.stdout.readline()) != b"\r\n":
            if not line:
                raise EOFError("the language server has ended")
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        message: dict[str, Any] = json.loads(self._process.stdout.read(length))
        return message


@pytest.fixture(scope="module")
def editor_view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    if os.environ.get("MCPKIT_TEST_NODE") == "0":
        pytest.skip("left out on purpose: MCPKIT_TEST_NODE=0")
    folder = tmp_path_factory.mktemp("editor")
    root, prefix = Path(__file__).parents[2], Path(sys.prefix)
    settings = {"venvPath": str(prefix.parent), "venv": prefix.name, "extraPaths": [str(root)]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    node = Path(sys.executable).with_name("node")
    environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(node), str(root / "node_modules/pyright/langserver.index.js"), "--stdio"]
    pipes: dict[str, Any] = {
        "stdin": subprocess.PIPE,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.DEVNULL,
    }
    with subprocess.Popen(command, env=environment, **pipes) as process:
        try:
            yield Editor(process, folder)
        finally:
            process.kill()


HOVERED = {"@extension.method": "Extension.method", "server.asgi": "Server.asgi", "server = Server": "Server"}


def test_editor_shows_every_option_with_its_description(editor_view: Editor) -> None:
    for words, name in HOVERED.items():
        text = " ".join(editor_view.hover(words).split())
        for option, meaning in meanings(CALLED[name]).items():
            if option in parameters(CALLED[name]):
                assert f"{option}: " in text.partition("Args:")[0], (name, option)
                assert meaning in text, (name, option)


def test_editor_completes_the_options_of_decorators(editor_view: Editor) -> None:
    left = PromptOptions.__annotations__.keys() - {"title"}  # which the program gives
    assert {f"{option}=" for option in left} <= editor_view.completions("@server.prompt(")
    left = ToolOptions.__annotations__.keys() - {"name"}
    assert {f"{option}=" for option in left} <= editor_view.completions("@tool(")
