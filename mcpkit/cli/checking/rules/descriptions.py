"""Texts that models read: descriptions, and instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....protocol.jsonrpc import is_array, is_object
from ..finding import Found, Looked, rule
from ..hosts import LONGEST_TEXT, schema_of


@rule("description-missing", "warning")
def missing(looked: Looked) -> Iterator[Found]:
    """A tool, resource, template or prompt has no description."""
    for where, item in looked.each("tool", "resource", "template", "prompt"):
        if not str(item.get("description") or "").strip():
            yield Found(
                where,
                "it has no description, so models do not know when to use it",
                "describe what it does and when to use it",
            )


@rule("description-too-long", "warning")
def too_long(looked: Looked) -> Iterator[Found]:
    """The description of a tool is longer than what Claude Code shows to its model."""
    for where, tool in looked.each("tool"):
        length = len(str(tool.get("description") or ""))
        if length > LONGEST_TEXT:
            yield Found(
                where,
                f"its description has {length:,} characters; Claude Code cuts it after {LONGEST_TEXT:,}",
                "put the important part first, and move the rest to the arguments or a resource",
            )


@rule("description-repeated", "warning")
def repeated(looked: Looked) -> Iterator[Found]:
    """Two tools have the same description."""
    for surface in looked.surfaces:
        known: dict[str, str] = {}
        for tool in surface.tools:
            name, text = str(tool.get("name")), str(tool.get("description") or "").strip()
            other = known.setdefault(text.casefold(), name)
            if text and other != name:
                where = f"{looked.prefix(surface)}tool {name}"
                yield Found(
                    where, f"its description is the same as that of {other}", "describe how they differ"
                )


@rule("argument-undescribed", "warning")
def argument(looked: Looked) -> Iterator[Found]:
    """An argument of a tool has no description, nor does that of the tool name it."""
    for where, tool in looked.each("tool"):
        text = str(tool.get("description") or "")
        for name, schema in schema_of(schema_of(tool), "properties").items():
            is_named = re.search(rf"\b{re.escape(name)}\b", text) is not None
            if is_object(schema) and not is_named and not _described(schema):
                yield Found(
                    where,
                    f"argument {name} has no description, so models have to guess",
                    f"describe {name} in the docstring",
                )


@rule("prompt-argument-undescribed", "warning")
def prompt_argument(looked: Looked) -> Iterator[Found]:
    """A required argument of a prompt has no description."""
    for where, prompt in looked.each("prompt"):
        arguments: object = prompt.get("arguments")
        for each in arguments if is_array(arguments) else ():
            if is_object(each) and each.get("required") and not each.get("description"):
                name = each.get("name")
                yield Found(
                    where, f"required argument {name} has no description", f"describe {name} in the docstring"
                )


@rule("instructions-too-long", "warning")
def instructions(looked: Looked) -> Iterator[Found]:
    """The instructions of a server are longer than what Claude Code shows to its model."""
    for surface in looked.surfaces:
        if len(surface.instructions) > LONGEST_TEXT:
            yield Found(
                f"{looked.prefix(surface)}instructions",
                f"they have {len(surface.instructions):,} characters; Claude Code cuts them after {LONGEST_TEXT:,}",
                "put the important part first, and move the rest to the tools",
            )


def _described(schema: object) -> bool:
    if not is_object(schema):
        return False
    unions: object = schema.get("anyOf", schema.get("oneOf", []))
    return bool(schema.get("description")) or (is_array(unions) and any(map(_described, unions)))
