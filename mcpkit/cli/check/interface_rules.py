"""Rules for annotations, URIs and the token budget of tools."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from ...lockfile.lockfile_changes import variables_of
from ...protocol.jsonrpc import Json
from ..inspect import count_tokens
from .host_limits import schema_of
from .rule import CheckInputs, Problem, rule

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


@rule("annotations-contradict", "error")
def contradictory_hints(inputs: CheckInputs) -> Iterator[Problem]:
    """A tool has both `readOnlyHint` and `destructiveHint`."""
    for where, tool in inputs.each("tool"):
        hints = schema_of(tool, "annotations")
        if hints.get("readOnlyHint") is True and hints.get("destructiveHint") is True:
            yield Problem(
                where,
                "readOnlyHint and destructiveHint are both true",
                "remove the one that is wrong",
            )


@rule("name-contradicts", "warning")
def name_contradicts_hints(inputs: CheckInputs) -> Iterator[Problem]:
    """The name of a tool contradicts its annotations."""
    for where, tool in inputs.each("tool"):
        hints = schema_of(tool, "annotations")
        words = re.findall(r"[A-Z]?[a-z]+", str(tool.get("name"))) or [""]
        first = words[0].casefold()
        if first in _CHANGING and hints.get("readOnlyHint") is True:
            yield Problem(
                where,
                f"its name begins with {first!r}, but readOnlyHint is true",
                "set readOnlyHint to false",
            )
        elif first in _DESTROYING and hints.get("destructiveHint") is False:
            yield Problem(
                where,
                f"its name begins with {first!r}, but destructiveHint is false",
                "remove destructiveHint",
            )
        elif (
            first in _READING
            and hints.get("readOnlyHint") is not True
            and hints.get("destructiveHint") is True
        ):
            yield Problem(
                where,
                f"its name begins with {first!r}, but destructiveHint is true",
                "set readOnlyHint, or rename the tool",
            )


@rule("uri-not-absolute", "error")
def uri_without_scheme(inputs: CheckInputs) -> Iterator[Problem]:
    """The URI of a resource or a template has no scheme."""
    for where, item in inputs.each("resource", "template"):
        if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", str(item.get("uri", item.get("uriTemplate")))):
            yield Problem(
                where,
                "its URI has no scheme, so clients cannot read it",
                "add a scheme, for example notes://today",
            )


@rule("template-variables", "warning")
def template_variables(inputs: CheckInputs) -> Iterator[Problem]:
    """A template has variables that clients cannot fill in: unnamed, named twice, oddly named, or none."""
    for where, item in inputs.each("template"):
        template = str(item.get("uriTemplate"))
        names = variables_of(template)
        rest = re.sub(r"\{[^{}]*\}", "", template)
        odd = [name for name in names if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
        if "{" in rest or "}" in rest:
            yield Problem(where, "its braces are unbalanced", "close each brace")
        elif not names:
            yield Problem(where, "it has no variables", "declare it as a resource")
        elif odd:
            yield Problem(
                where,
                f"{', '.join(map(repr, odd))} is not a valid variable name",
                "use letters, digits and _",
            )
        elif len(set(names)) < len(names):
            yield Problem(where, "it has the same variable twice", "use each variable once")


@rule("tool-over-budget", "warning")
def tool_over_budget(inputs: CheckInputs) -> Iterator[Problem]:
    """A tool costs more tokens than `--tool-budget` allows (1,000), by an estimate."""
    for where, tool in inputs.each("tool"):
        if _may_exceed(tool, inputs.tool_budget) and (cost := tool_token_count(tool)) > inputs.tool_budget:
            yield Problem(
                where,
                f"its definition takes about {cost:,} tokens; the limit is {inputs.tool_budget:,}",
                "shorten the descriptions, or use fewer arguments",
            )


@rule("total-over-budget", "warning")
def total_over_budget(inputs: CheckInputs) -> Iterator[Problem]:
    """All tools together cost more tokens than `--budget` allows (10,000), by an estimate."""
    tools = [tool for _, tool in inputs.each("tool")]
    if sum(map(_size, tools)) <= inputs.budget:
        return
    total = sum(map(tool_token_count, tools))
    if total > inputs.budget:
        yield Problem(
            "all tools",
            f"their definitions take about {total:,} tokens; the limit is {inputs.budget:,}",
            "remove tools, or split the server",
        )


def tool_token_count(tool: Json) -> int:
    """Estimate the tokens of a tool's name, description and arguments, which a model reads."""
    return count_tokens(_model_text(tool))


def _model_text(tool: Json) -> str:
    read = {
        "name": tool.get("name"),
        "description": tool.get("description"),
        "parameters": tool.get("inputSchema"),
    }
    return json.dumps(read, ensure_ascii=False)


def _size(tool: Json) -> int:
    return len(_model_text(tool).encode(errors="replace"))


def _may_exceed(tool: Json, budget: int) -> bool:
    """Return whether the tokens must be counted: a token has at least one byte, and the tokenizer loads slowly."""
    return _size(tool) > budget
