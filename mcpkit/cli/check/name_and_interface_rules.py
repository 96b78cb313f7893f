"""Rules for names, descriptions, annotations and URIs of tools, resources and prompts, and the tokens of tools."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ...lockfile.lockfile import variables_of
from ...protocol.jsonrpc import Json, is_array, is_object, object_at
from .rule_form_and_host_limits import (
    API_NAME,
    GEMINI_ARGUMENT,
    GEMINI_NAME,
    MAX_TEXT_LENGTH,
    NAME_LIMITS,
    SPECIFIED_NAME,
    CheckInputs,
    Problem,
    item_rule,
    rule,
    schema_of,
)

# Names


@item_rule("name-not-specified", "error")
def name_not_specified(tool: Json) -> Iterator[tuple[str, str]]:
    """The name of a tool does not match the specification."""
    if not SPECIFIED_NAME.fullmatch(str(tool.get("name"))):
        yield "hosts reject or change such names", "use 1 to 128 of A-Z, a-z, 0-9, _, - and dots"


@item_rule("name-letters", "warning")
def name_letters(tool: Json) -> Iterator[tuple[str, str]]:
    """The name of a tool has characters that OpenAI's and Anthropic's APIs reject, such as dots."""
    name = str(tool.get("name"))
    if SPECIFIED_NAME.fullmatch(name) and not API_NAME.fullmatch(name):
        message = "OpenAI and Anthropic accept only A-Z, a-z, 0-9, _ and - in names"
        yield message, "use _ instead of other characters"


@item_rule("name-begins-oddly", "warning")
def name_start(tool: Json) -> Iterator[tuple[str, str]]:
    """The name of a tool does not begin with a letter or an underscore, as Gemini requires."""
    name = str(tool.get("name"))
    if SPECIFIED_NAME.fullmatch(name) and not GEMINI_NAME.fullmatch(name):
        yield "Gemini rejects a name that does not begin with a letter or _", "begin it with a letter"


@rule("name-too-long", "warning")
def name_too_long(inputs: CheckInputs) -> Iterator[Problem]:
    """The name of a tool, with the prefix that a host adds, is longer than the host accepts."""
    for surface in inputs.surfaces:
        for place, tool in inputs.each_of(surface, "tool"):
            for limit in NAME_LIMITS:
                full_name = limit.prefix.format(server=surface.server) + str(tool.get("name"))
                excess = len(full_name) - limit.max_length
                if excess > 0:
                    yield Problem(
                        place,
                        f"{limit.host} calls it {full_name} ({len(full_name)} characters), accepts at most"
                        f" {limit.max_length}, and {limit.outcome}",
                        f"shorten the name by {excess} characters",
                    )


@item_rule("argument-name", "warning")
def argument_name(tool: Json) -> Iterator[tuple[str, str]]:
    """The name of an argument is one that Gemini rejects."""
    for name in object_at(schema_of(tool), "properties"):
        if not GEMINI_ARGUMENT.fullmatch(name):
            cure = "use letters, digits and _, at most 64, and no digit first"
            yield f"Gemini rejects the argument name {name}", cure


@rule("names-alike", "warning")
def similar_names(inputs: CheckInputs) -> Iterator[Problem]:
    """Two names differ only in case, underscores, hyphens or dots."""
    for kind in ("tool", "prompt"):
        for surface in inputs.surfaces:
            known: dict[str, str] = {}
            for place, item in inputs.each_of(surface, kind):
                name = str(item.get("name"))
                other = known.setdefault(_fold(name), name)
                if other != name:
                    yield Problem(place, f"models confuse it with {other}", "rename one of them")


@rule("name-repeated", "error")
def repeated_name(inputs: CheckInputs) -> Iterator[Problem]:
    """A server lists the same name twice."""
    message = "the list has this name twice, so one of them cannot be called"
    for surface in inputs.surfaces:
        for kind in ("tool", "prompt"):
            counts = Counter(place for place, _ in inputs.each_of(surface, kind))
            for place, count in counts.items():
                if count > 1:
                    yield Problem(place, message, "give each a unique name")


@rule("name-of-several-servers", "warning")
def name_in_several_servers(inputs: CheckInputs) -> Iterator[Problem]:
    """Several servers of a configuration have tools or prompts of one name."""
    for kind in ("tool", "prompt"):
        owners: dict[str, dict[str, str]] = {}
        for surface in inputs.surfaces:
            for _, item in inputs.each_of(surface, kind):
                name = str(item.get("name"))
                owners.setdefault(_fold(name), {}).setdefault(surface.server, name)
        for servers in owners.values():
            if len(servers) > 1:
                message = f"{' and '.join(sorted(servers))} have it, and some hosts show one"
                yield Problem(f"{kind} {servers[min(servers)]}", message, "add the subject to the name")


@rule("prompt-named-as-tool", "advice")
def prompt_named_like_tool(inputs: CheckInputs) -> Iterator[Problem]:
    """A prompt has the name of a tool."""
    for surface in inputs.surfaces:
        tools = {_fold(str(tool.get("name"))) for tool in surface.tools}
        for place, prompt in inputs.each_of(surface, "prompt"):
            if _fold(str(prompt.get("name"))) in tools:
                yield Problem(place, "a tool has the same name, and some hosts list both", "rename it")


def _fold(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in "_-.")


# Descriptions


@item_rule("description-missing", "warning", "tool", "resource", "template", "prompt")
def description_missing(item: Json) -> Iterator[tuple[str, str]]:
    """A tool, resource, template or prompt has no description."""
    if not str(item.get("description") or "").strip():
        message = "it has no description, so models do not know when to use it"
        yield message, "describe what it does and when to use it"


@item_rule("description-too-long", "warning")
def description_too_long(tool: Json) -> Iterator[tuple[str, str]]:
    """The description of a tool is longer than what Claude Code shows to its model."""
    length = len(str(tool.get("description") or ""))
    if length > MAX_TEXT_LENGTH:
        message = f"its description has {length:,} characters; Claude Code cuts it after {MAX_TEXT_LENGTH:,}"
        yield message, "put the important part first, and move the rest to the arguments or a resource"


@rule("description-repeated", "warning")
def repeated_description(inputs: CheckInputs) -> Iterator[Problem]:
    """Two tools have the same description."""
    for surface in inputs.surfaces:
        known: dict[str, str] = {}
        for place, tool in inputs.each_of(surface, "tool"):
            name, text = str(tool.get("name")), str(tool.get("description") or "").strip()
            other = known.setdefault(text.casefold(), name)
            if text and other != name:
                message = f"its description is the same as that of {other}"
                yield Problem(place, message, "describe how they differ")


@item_rule("argument-undescribed", "warning")
def argument_description(tool: Json) -> Iterator[tuple[str, str]]:
    """An argument of a tool has no description, nor does that of the tool name it."""
    text = str(tool.get("description") or "")
    for name, schema in object_at(schema_of(tool), "properties").items():
        is_named = re.search(rf"\b{re.escape(name)}\b", text) is not None
        if is_object(schema) and not is_named and not _has_description(schema):
            message = f"argument {name} has no description, so models have to guess"
            yield message, f"describe {name} in the docstring"


def _has_description(schema: object) -> bool:
    if not is_object(schema):
        return False
    unions: object = schema.get("anyOf", schema.get("oneOf", []))
    return bool(schema.get("description")) or (is_array(unions) and any(map(_has_description, unions)))


@item_rule("prompt-argument-undescribed", "warning", "prompt")
def prompt_argument_description(prompt: Json) -> Iterator[tuple[str, str]]:
    """A required argument of a prompt has no description."""
    arguments: object = prompt.get("arguments")
    for each in arguments if is_array(arguments) else ():
        if is_object(each) and each.get("required") and not each.get("description"):
            name = each.get("name")
            yield f"required argument {name} has no description", f"describe {name} in the docstring"


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


# Annotations

_CHANGING: Final = frozenset(
    {"add", "append", "create", "delete", "destroy", "drop", "edit", "erase", "insert", "kill", "move", "overwrite",
     "purge", "remove", "rename", "reset", "revoke", "save", "send", "set", "truncate", "update", "upload",
     "wipe", "write"}
)  # fmt: skip
_DESTROYING: Final = frozenset(
    {"delete", "destroy", "drop", "erase", "overwrite", "purge", "remove", "truncate", "wipe"}
)
_READING: Final = frozenset({"describe", "fetch", "find", "get", "list", "read", "search", "show"})
"""First words of tool names that imply an effect."""


@item_rule("annotations-contradict", "error")
def contradictory_hints(tool: Json) -> Iterator[tuple[str, str]]:
    """A tool has both `readOnlyHint` and `destructiveHint`."""
    hints = object_at(tool, "annotations")
    if hints.get("readOnlyHint") is True and hints.get("destructiveHint") is True:
        yield "readOnlyHint and destructiveHint are both true", "remove the one that is wrong"


@item_rule("name-contradicts", "warning")
def name_contradicts_hints(tool: Json) -> Iterator[tuple[str, str]]:
    """The name of a tool contradicts its annotations."""
    hints = object_at(tool, "annotations")
    reads, destroys = hints.get("readOnlyHint"), hints.get("destructiveHint")
    words = re.findall(r"[A-Z]?[a-z]+", str(tool.get("name"))) or [""]
    first = words[0].casefold()
    begins = f"its name begins with {first!r}, but"
    if first in _CHANGING and reads is True:
        yield f"{begins} readOnlyHint is true", "set readOnlyHint to false"
    elif first in _DESTROYING and destroys is False:
        yield f"{begins} destructiveHint is false", "remove destructiveHint"
    elif first in _READING and destroys is True and reads is not True:
        yield f"{begins} destructiveHint is true", "set readOnlyHint, or rename the tool"


# URIs


@item_rule("uri-not-absolute", "error", "resource", "template")
def uri_without_scheme(item: Json) -> Iterator[tuple[str, str]]:
    """The URI of a resource or a template has no scheme."""
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", str(item.get("uri", item.get("uriTemplate")))):
        message = "its URI has no scheme, so clients cannot read it"
        yield message, "add a scheme, for example notes://today"


@item_rule("template-variables", "warning", "template")
def template_variables(template: Json) -> Iterator[tuple[str, str]]:
    """A template has variables that clients cannot fill in: unnamed, named twice, oddly named, or none."""
    uri = str(template.get("uriTemplate"))
    names = variables_of(uri)
    odd = [name for name in names if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
    if re.search(r"[{}]", re.sub(r"\{[^{}]*\}", "", uri)):
        yield "its braces are unbalanced", "close each brace"
    elif not names:
        yield "it has no variables", "declare it as a resource"
    elif odd:
        yield f"{', '.join(map(repr, odd))} is not a valid variable name", "use letters, digits and _"
    elif len(set(names)) < len(names):
        yield "it has the same variable twice", "use each variable once"


# Tokens


@rule("tool-over-budget", "warning")
def tool_over_budget(inputs: CheckInputs) -> Iterator[Problem]:
    """A tool costs more tokens than `--tool-budget` allows (1,000), by an estimate."""
    for place, tool in inputs.each("tool"):
        if (cost := _token_count([tool], inputs.tool_budget)) > inputs.tool_budget:
            message = f"its definition takes about {cost:,} tokens; the limit is {inputs.tool_budget:,}"
            yield Problem(place, message, "shorten the descriptions, or use fewer arguments")


@rule("total-over-budget", "warning")
def total_over_budget(inputs: CheckInputs) -> Iterator[Problem]:
    """All tools together cost more tokens than `--budget` allows (10,000), by an estimate."""
    total = _token_count([tool for _, tool in inputs.each("tool")], inputs.budget)
    if total > inputs.budget:
        message = f"their definitions take about {total:,} tokens; the limit is {inputs.budget:,}"
        yield Problem("all tools", message, "remove tools, or split the server")


def _token_count(tools: list[Json], budget: int) -> int:
    """Estimate the tokens of what a model reads of tools; 0 if they are within the budget by their size."""
    if len(json.dumps(tools)) <= budget:  # a token has at least one byte, and the tokenizer loads slowly
        return 0
    from ..inspect import count_tool_tokens  # it imports click, which the fixture mcp_check does without

    return sum(map(count_tool_tokens, tools))
