"""Hosts and models, and what they take of tools, as far as they document it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ...protocol.jsonrpc import Json, is_array, is_object


class Names(NamedTuple):
    """What a host makes of a tool's name.

    Attributes:
        host: The host.
        prefix: What it puts in front; `{server}` is the server's name.
        most: How many characters the whole may have.
        outcome: What it does with longer ones.
        url: Where that is said.
    """

    host: str
    prefix: str
    most: int
    outcome: str
    url: str


SPECIFIED: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""Names of tools as the specification has them, since SEP-986:
https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names"""

LETTERS: Final = re.compile(r"[A-Za-z0-9_-]*")
"""The letters of names that OpenAI's and Anthropic's interfaces take:
https://platform.openai.com/docs/api-reference/chat/create (`function.name`) and
https://platform.claude.com/docs/agents-and-tools/tool-use/define-tools (`name`)"""

GEMINI_NAME: Final = re.compile(r"[A-Za-z_].*")
"""Names of functions begin with a letter or an underscore:
https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1beta1/FunctionDeclaration"""

ARGUMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
"""Names of parameters that Gemini accepts (same page)."""

LIMITS: Final = {
    "openai": Names(
        "OpenAI", "", 64, "rejects the request", "https://platform.openai.com/docs/api-reference/chat/create"
    ),
    "claude": Names(
        "Claude", "mcp__{server}__", 64, "rejects or omits it in many versions",
        "https://github.com/anthropics/claude-code/issues/22276",
    ),
    "qwen-code": Names(
        "Qwen Code", "", 63, "replaces its middle by underscores",
        "https://github.com/QwenLM/qwen-code/blob/main/packages/core/src/tools/mcp-tool.ts",
    ),
    "gemini-cli": Names(
        "Gemini CLI", "mcp_{server}_", 63, "replaces its middle by dots",
        "https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/tools/mcp-tool.ts",
    ),
}  # fmt: skip
"""How long names may be."""

LONGEST_TEXT: Final = 2_048
"""Characters of descriptions of tools, and of instructions, that Claude Code shows to its model:
https://code.claude.com/docs/en/mcp ("Scale with MCP tool search")"""

DEEPEST: Final = 10
MOST_PROPERTIES: Final = 5_000
MOST_CHOICES: Final = 1_000
"""How deep schemas may be, and how many properties and choices they may have, for OpenAI's models:
https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"""


class Strict(NamedTuple):
    """A strict mode: schemas are compiled, and what is not known is refused.

    Attributes:
        host: Whose it is.
        refused: Keywords that it refuses.
        needs_all: Whether every property has to be required.
        allows_recursion: Whether schemas may contain themselves.
        url: Where that is said.
    """

    host: str
    refused: frozenset[str]
    needs_all: bool
    allows_recursion: bool
    url: str


STRICT: Final = {
    "openai-strict": Strict(
        "OpenAI",
        frozenset({"allOf", "not", "oneOf", "dependentRequired", "dependentSchemas", "if", "then", "else",
                   "patternProperties", "prefixItems"}),
        needs_all=True,
        allows_recursion=True,
        url="https://platform.openai.com/docs/guides/structured-outputs#supported-schemas",
    ),
    "anthropic-strict": Strict(
        "Anthropic",
        frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
                   "maxLength", "maxItems", "uniqueItems", "oneOf", "not", "if", "then",
                   "else", "patternProperties", "prefixItems"}),
        needs_all=False,
        allows_recursion=False,
        url="https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations",
    ),
}  # fmt: skip
"""Strict modes, checked with `--host` only: most hosts do not use them for MCP tools."""


def schema_of(tool: Json, key: str = "inputSchema") -> Json:
    """Return a schema of a tool; an empty one where there is none."""
    schema: object = tool.get(key)
    return schema if is_object(schema) else {}


def names_of(schema: Json, key: str) -> set[str]:
    """Return the names in a list of a schema, such as `required`; none where it is no list."""
    names: object = schema.get(key)
    return {str(name) for name in names} if is_array(names) else set()
