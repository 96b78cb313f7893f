"""What `mcpkit check` finds, and the rules that find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple

from ...client.contract.changes import Change
from ...client.contract.surface import Surface
from ...protocol.jsonrpc import Json

Severity = Literal["error", "warning", "advice"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "advice")
"""From most to least severe: certain failure, problem in some hosts or models, improvement."""


@dataclass(frozen=True)
class Finding:
    """Something that hosts, models or clients will stumble over.

    Attributes:
        code: What it is, in words that stay the same.
        severity: How bad it is.
        where: What it is about, such as `tool price`.
        what: What was seen, and what comes of it.
        cure: What to change.
    """

    code: str
    severity: Severity
    where: str
    what: str
    cure: str


class Found(NamedTuple):
    """What a rule has found, as in `Finding`."""

    where: str
    what: str
    cure: str


@dataclass(frozen=True)
class Looked:
    """What rules look at.

    Attributes:
        surfaces: What servers say of themselves.
        sources: The files of a server that is given as one, and of its own modules that it imports.
        changes: What has changed since the contract was written.
        budget: How many tokens all tools together may cost a model.
        tool_budget: How many one tool may cost.
        strict_hosts: Hosts' strict modes in which tools have to work, such as `openai-strict`.
    """

    surfaces: Sequence[Surface] = ()
    sources: Sequence[Path] = ()
    changes: Sequence[Change] = ()
    budget: int = 10_000
    tool_budget: int = 1_000
    strict_hosts: Sequence[str] = ()

    def each(self, *kinds: str) -> Iterator[tuple[str, Json]]:
        """Yield tools, resources, templates or prompts, each with the words that say which one it is."""
        for surface in self.surfaces:
            lists = {
                "tool": (surface.tools, "name"),
                "resource": (surface.resources, "uri"),
                "template": (surface.templates, "uriTemplate"),
                "prompt": (surface.prompts, "name"),
            }
            for kind in kinds:
                items, key = lists[kind]
                yield from ((f"{self.prefix(surface)}{kind} {item.get(key)}", item) for item in items)

    def prefix(self, surface: Surface) -> str:
        """Return what places are told apart by, where there are several servers."""
        return f"{surface.server}: " if len(self.surfaces) > 1 else ""


class Rule(NamedTuple):
    """A rule.

    Attributes:
        code: What its findings are called.
        severity: How bad they are.
        summary: What it looks for, in a line.
        look: Looks.
    """

    code: str
    severity: Severity
    summary: str
    look: Callable[[Looked], Iterator[Found]]


def rule(code: str, severity: Severity) -> Callable[[Callable[[Looked], Iterator[Found]]], Rule]:
    """Make a function a rule; the first line of its docstring says what it looks for."""

    def made(look: Callable[[Looked], Iterator[Found]]) -> Rule:
        return Rule(code, severity, (look.__doc__ or "").strip().splitlines()[0], look)

    return made
