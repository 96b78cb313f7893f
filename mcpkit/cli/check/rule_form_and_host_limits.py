"""Form of the rules of `mcpkit check`, the server data that they read, and documented limits of hosts and models."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from ...lockfile.lockfile import KEYS, Change, Surface, items_of
from ...protocol.jsonrpc import Json, object_at
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
            for kind in kinds:
                yield from self.each_of(surface, kind)

    def each_of(self, surface: Surface, kind: str) -> Iterator[tuple[str, Json]]:
        """Yield the tools, resources, templates or prompts of one server, each with its kind and name."""
        for item in items_of(surface, f"{kind}s"):
            yield f"{self.prefix(surface)}{kind} {item.get(KEYS[f'{kind}s'][0])}", item

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


def item_rule(
    code: str, severity: Severity, *kinds: str
) -> Callable[[Callable[[Json], Iterator[tuple[str, str]]]], Rule]:
    """Create a rule from a function that yields messages and fixes for one item of these kinds, or for one tool."""

    def decorator(check: Callable[[Json], Iterator[tuple[str, str]]]) -> Rule:
        def run(inputs: CheckInputs) -> Iterator[Problem]:
            for place, item in inputs.each(*(kinds or ("tool",))):
                for message, cure in check(item):
                    yield Problem(place, message, cure)

        run.__doc__ = check.__doc__
        return rule(code, severity)(run)

    return decorator


def schema_of(tool: Json) -> Json:
    """Return the schema of a tool's arguments; an empty one if it is missing."""
    return object_at(tool, "inputSchema")


# Documented limits of hosts and model APIs for names, texts and schemas


class NameLimit(NamedTuple):
    """Limit of a host for the length of tool names.

    Attributes:
        host: The host.
        prefix: The prefix that it adds; `{server}` is the server's name.
        max_length: Maximum number of characters, prefix included.
        outcome: The consequence of a longer name.
    """

    host: str
    prefix: str
    max_length: int
    outcome: str


SPECIFIED_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""Tool names that the specification allows since SEP-986:
https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names"""

API_NAME: Final = re.compile(r"[A-Za-z0-9_-]*")
"""The letters of names that OpenAI's and Anthropic's interfaces take:
https://platform.openai.com/docs/api-reference/chat/create (`function.name`) and
https://platform.claude.com/docs/agents-and-tools/tool-use/define-tools (`name`)"""

GEMINI_NAME: Final = re.compile(r"[A-Za-z_].*")
"""Names of functions begin with a letter or an underscore:
https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1beta1/FunctionDeclaration"""

GEMINI_ARGUMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""Names of parameters that Gemini accepts (same page)."""

NAME_LIMITS: Final = (
    # https://platform.openai.com/docs/api-reference/chat/create
    NameLimit("OpenAI", "", 64, "rejects the request"),
    # https://github.com/anthropics/claude-code/issues/22276
    NameLimit("Claude", "mcp__{server}__", 64, "rejects or omits it in many versions"),
    # https://github.com/QwenLM/qwen-code/blob/main/packages/core/src/tools/mcp-tool.ts
    NameLimit("Qwen Code", "", 63, "replaces its middle by underscores"),
    # https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/tools/mcp-tool.ts
    NameLimit("Gemini CLI", "mcp_{server}_", 63, "replaces its middle by dots"),
)
"""Limits for the length of tool names, with their documentation or source."""

MAX_TEXT_LENGTH: Final = 2_048
"""Characters of descriptions of tools, and of instructions, that Claude Code shows to its model:
https://code.claude.com/docs/en/mcp ("Scale with MCP tool search")"""

MAX_DEPTH: Final = 10
MAX_PROPERTIES: Final = 5_000
MAX_CHOICES: Final = 1_000
"""Maximum depth, properties and choices of schemas for OpenAI's models:
https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"""


class StrictMode(NamedTuple):
    """A strict mode of a model API, which rejects schemas with unsupported keywords.

    Attributes:
        host: The provider.
        rejected_keywords: Keywords that it rejects.
        requires_all: Whether every property must be required.
        allows_recursion: Whether schemas may be recursive.
    """

    host: str
    rejected_keywords: frozenset[str]
    requires_all: bool
    allows_recursion: bool


STRICT_MODES: Final = {
    # https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    "openai-strict": StrictMode(
        "OpenAI",
        frozenset({"allOf", "not", "oneOf", "dependentRequired", "dependentSchemas", "if", "then", "else",
                   "patternProperties", "prefixItems"}),
        requires_all=True, allows_recursion=True,
    ),
    # https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
    "anthropic-strict": StrictMode(
        "Anthropic",
        frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
                   "maxLength", "maxItems", "uniqueItems", "oneOf", "not", "if", "then",
                   "else", "patternProperties", "prefixItems"}),
        requires_all=False, allows_recursion=False,
    ),
}  # fmt: skip
"""Strict modes, checked with `--host` only: most hosts do not use them for MCP tools."""
