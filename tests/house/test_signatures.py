"""Every option of what authors call has a type and a description in `help()` and in `inspect`."""

import ast
import inspect
import pydoc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import docstring_parser

import mcpkit
from mcpkit import Extension, Prompt, Resource, ResourceTemplate, Server, Tool
from mcpkit.components.component import FunctionOptions
from mcpkit.components.registry_and_decorators import (
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
    **{f"mcpkit.{name}": decorator for name, decorator in FREE.items()}, "Server": Server,
    "Server.run": Server.run, "Server.asgi": Server.asgi, "Server.include": Server.include,
    "Server.extension": Server.extension, "Extension.method": Extension.method,
}  # fmt: skip


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
    sources = {Path(inspect.getfile(options)) for options in (FunctionOptions, *OPTIONS)}
    definitions = [each for source in sources for each in ast.parse(source.read_text("utf-8")).body]
    for definition in definitions:
        if isinstance(definition, ast.ClassDef) and definition.name.endswith("Options"):
            for member, after in zip(definition.body, [*definition.body[1:], None], strict=True):
                if isinstance(member, ast.AnnAssign) and definition.name != "ResultOptions":
                    assert isinstance(after, ast.Expr), f"{definition.name}.{ast.unparse(member.target)}"
