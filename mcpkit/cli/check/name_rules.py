"""Rules for names and descriptions of tools, resources and prompts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...protocol.jsonrpc import is_array, is_object
from .host_limits import (
    API_NAME,
    GEMINI_ARGUMENT,
    GEMINI_NAME,
    MAX_TEXT_LENGTH,
    NAME_LIMITS,
    SPECIFIED_NAME,
    schema_of,
)
from .rule import CheckInputs, Problem, rule


@rule("name-not-specified", "error")
def name_not_specified(inputs: CheckInputs) -> Iterator[Problem]:
    """The name of a tool does not match the specification."""
    for where, tool in inputs.each("tool"):
        if not SPECIFIED_NAME.fullmatch(str(tool.get("name"))):
            yield Problem(
                where, "hosts reject or change such names", "use 1 to 128 of A-Z, a-z, 0-9, _, - and dots"
            )


@rule("name-letters", "warning")
def name_letters(inputs: CheckInputs) -> Iterator[Problem]:
    """The name of a tool has characters that OpenAI's and Anthropic's APIs reject, such as dots."""
    for where, tool in inputs.each("tool"):
        name = str(tool.get("name"))
        if SPECIFIED_NAME.fullmatch(name) and not API_NAME.fullmatch(name):
            yield Problem(
                where,
                "OpenAI and Anthropic accept only A-Z, a-z, 0-9, _ and - in names",
                "use _ instead of other characters",
            )


@rule("name-begins-oddly", "warning")
def name_start(inputs: CheckInputs) -> Iterator[Problem]:
    """The name of a tool does not begin with a letter or an underscore, as Gemini requires."""
    for where, tool in inputs.each("tool"):
        name = str(tool.get("name"))
        if SPECIFIED_NAME.fullmatch(name) and not GEMINI_NAME.fullmatch(name):
            yield Problem(
                where,
                "Gemini rejects a name that does not begin with a letter or _",
                "begin it with a letter",
            )


@rule("name-too-long", "warning")
def name_too_long(inputs: CheckInputs) -> Iterator[Problem]:
    """The name of a tool, with the prefix that a host adds, is longer than the host accepts."""
    for surface in inputs.surfaces:
        for tool in surface.tools:
            name = str(tool.get("name"))
            for limit in NAME_LIMITS.values():
                full_name = limit.prefix.format(server=surface.server) + name
                if len(full_name) > limit.max_length:
                    yield Problem(
                        f"{inputs.prefix(surface)}tool {name}",
                        f"{limit.host} calls it {full_name} ({len(full_name)} characters), accepts at most"
                        f" {limit.max_length}, and {limit.outcome}",
                        f"shorten the name by {len(full_name) - limit.max_length} characters",
                    )


@rule("argument-name", "warning")
def argument_name(inputs: CheckInputs) -> Iterator[Problem]:
    """The name of an argument is one that Gemini rejects."""
    for where, tool in inputs.each("tool"):
        for name in schema_of(schema_of(tool), "properties"):
            if not GEMINI_ARGUMENT.fullmatch(name):
                yield Problem(
                    where,
                    f"Gemini rejects the argument name {name}",
                    "use letters, digits and _, at most 64, and no digit first",
                )


@rule("names-alike", "warning")
def similar_names(inputs: CheckInputs) -> Iterator[Problem]:
    """Two names differ only in case, underscores, hyphens or dots."""
    for kind in ("tool", "prompt"):
        for surface in inputs.surfaces:
            known: dict[str, str] = {}
            for item in surface.tools if kind == "tool" else surface.prompts:
                name = str(item.get("name"))
                other = known.setdefault(_fold(name), name)
                if other != name:
                    where = f"{inputs.prefix(surface)}{kind} {name}"
                    yield Problem(where, f"models confuse it with {other}", "rename one of them")


@rule("name-repeated", "error")
def repeated_name(inputs: CheckInputs) -> Iterator[Problem]:
    """A server lists the same name twice."""
    for surface in inputs.surfaces:
        for kind, items in (("tool", surface.tools), ("prompt", surface.prompts)):
            names = [str(item.get("name")) for item in items]
            for name in dict.fromkeys(name for name in names if names.count(name) > 1):
                where = f"{inputs.prefix(surface)}{kind} {name}"
                yield Problem(
                    where,
                    "the list has this name twice, so one of them cannot be called",
                    "give each a unique name",
                )


@rule("name-of-several-servers", "warning")
def name_in_several_servers(inputs: CheckInputs) -> Iterator[Problem]:
    """Several servers of a configuration have tools or prompts of one name."""
    for kind in ("tool", "prompt"):
        owners: dict[str, list[str]] = {}
        for surface in inputs.surfaces:
            for item in surface.tools if kind == "tool" else surface.prompts:
                owners.setdefault(_fold(str(item.get("name"))), []).append(surface.server)
        for surface in inputs.surfaces:
            for item in surface.tools if kind == "tool" else surface.prompts:
                others = [each for each in owners[_fold(str(item.get("name")))] if each != surface.server]
                if others and others[0] > surface.server:
                    yield Problem(
                        f"{kind} {item.get('name')}",
                        f"{' and '.join([surface.server, *dict.fromkeys(others)])} have it, and some hosts show one",
                        "add the subject to the name",
                    )


@rule("prompt-named-as-tool", "advice")
def prompt_named_like_tool(inputs: CheckInputs) -> Iterator[Problem]:
    """A prompt has the name of a tool."""
    for surface in inputs.surfaces:
        tools = {_fold(str(tool.get("name"))) for tool in surface.tools}
        for prompt in surface.prompts:
            if _fold(str(prompt.get("name"))) in tools:
                where = f"{inputs.prefix(surface)}prompt {prompt.get('name')}"
                yield Problem(where, "a tool has the same name, and some hosts list both", "rename it")


def _fold(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in "_-.")


@rule("description-missing", "warning")
def description_missing(inputs: CheckInputs) -> Iterator[Problem]:
    """A tool, resource, template or prompt has no description."""
    for where, item in inputs.each("tool", "resource", "template", "prompt"):
        if not str(item.get("description") or "").strip():
            yield Problem(
                where,
                "it has no description, so models do not know when to use it",
                "describe what it does and when to use it",
            )


@rule("description-too-long", "warning")
def description_too_long(inputs: CheckInputs) -> Iterator[Problem]:
    """The description of a tool is longer than what Claude Code shows to its model."""
    for where, tool in inputs.each("tool"):
        length = len(str(tool.get("description") or ""))
        if length > MAX_TEXT_LENGTH:
            yield Problem(
                where,
                f"its description has {length:,} characters; Claude Code cuts it after {MAX_TEXT_LENGTH:,}",
                "put the important part first, and move the rest to the arguments or a resource",
            )


@rule("description-repeated", "warning")
def repeated_description(inputs: CheckInputs) -> Iterator[Problem]:
    """Two tools have the same description."""
    for surface in inputs.surfaces:
        known: dict[str, str] = {}
        for tool in surface.tools:
            name, text = str(tool.get("name")), str(tool.get("description") or "").strip()
            other = known.setdefault(text.casefold(), name)
            if text and other != name:
                where = f"{inputs.prefix(surface)}tool {name}"
                yield Problem(
                    where, f"its description is the same as that of {other}", "describe how they differ"
                )


@rule("argument-undescribed", "warning")
def argument_description(inputs: CheckInputs) -> Iterator[Problem]:
    """An argument of a tool has no description, nor does that of the tool name it."""
    for where, tool in inputs.each("tool"):
        text = str(tool.get("description") or "")
        for name, schema in schema_of(schema_of(tool), "properties").items():
            is_named = re.search(rf"\b{re.escape(name)}\b", text) is not None
            if is_object(schema) and not is_named and not _has_description(schema):
                yield Problem(
                    where,
                    f"argument {name} has no description, so models have to guess",
                    f"describe {name} in the docstring",
                )


@rule("prompt-argument-undescribed", "warning")
def prompt_argument_description(inputs: CheckInputs) -> Iterator[Problem]:
    """A required argument of a prompt has no description."""
    for where, prompt in inputs.each("prompt"):
        arguments: object = prompt.get("arguments")
        for each in arguments if is_array(arguments) else ():
            if is_object(each) and each.get("required") and not each.get("description"):
                name = each.get("name")
                yield Problem(
                    where, f"required argument {name} has no description", f"describe {name} in the docstring"
                )


@rule("instructions-too-long", "warning")
def instructions_too_long(inputs: CheckInputs) -> Iterator[Problem]:
    """The instructions of a server are longer than what Claude Code shows to its model."""
    for surface in inputs.surfaces:
        if len(surface.instructions) > MAX_TEXT_LENGTH:
            yield Problem(
                f"{inputs.prefix(surface)}instructions",
                f"they have {len(surface.instructions):,} characters; Claude Code cuts them after {MAX_TEXT_LENGTH:,}",
                "put the important part first, and move the rest to the tools",
            )


def _has_description(schema: object) -> bool:
    if not is_object(schema):
        return False
    unions: object = schema.get("anyOf", schema.get("oneOf", []))
    return bool(schema.get("description")) or (is_array(unions) and any(map(_has_description, unions)))
