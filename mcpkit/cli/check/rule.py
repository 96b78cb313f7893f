"""Rules of `mcpkit check`: their form, and the server data that they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...lockfile.lockfile import Surface
from ...lockfile.lockfile_changes import Change
from ...protocol.jsonrpc import Json
from ..findings import Severity


class Problem(NamedTuple):
    """Result of a rule; the fields are those of `Finding`."""

    place: str
    message: str
    cure: str


@dataclass(frozen=True)
class CheckInputs:
    """Data of servers that rules read.

    Attributes:
        surfaces: The interfaces of the servers.
        sources: The source files of a server.
        changes: The changes against the lockfile.
        budget: Maximum number of tokens of all tools together.
        tool_budget: Maximum number of tokens of one tool.
        strict_hosts: Strict modes of model APIs to check, such as `openai-strict`.
    """

    surfaces: Sequence[Surface] = ()
    sources: Sequence[Path] = ()
    changes: Sequence[Change] = ()
    budget: int = 10_000
    tool_budget: int = 1_000
    strict_hosts: Sequence[str] = ()

    def each(self, *kinds: str) -> Iterator[tuple[str, Json]]:
        """Yield tools, resources, templates or prompts, each with its kind and name."""
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
        """Return the server's name and a colon if there are several servers; otherwise an empty string."""
        return f"{surface.server}: " if len(self.surfaces) > 1 else ""


class Rule(NamedTuple):
    """A rule.

    Attributes:
        code: The code of its findings.
        severity: The severity of its findings.
        summary: Its condition in a line.
        run: Yields the problems of a server.
    """

    code: str
    severity: Severity
    summary: str
    run: Callable[[CheckInputs], Iterator[Problem]]


def rule(code: str, severity: Severity) -> Callable[[Callable[[CheckInputs], Iterator[Problem]]], Rule]:
    """Create a rule from a function; the first line of its docstring is the summary."""

    def decorator(run: Callable[[CheckInputs], Iterator[Problem]]) -> Rule:
        return Rule(code, severity, (run.__doc__ or "").strip().splitlines()[0], run)

    return decorator
