"""Facts about a file that is being rewritten."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst


@dataclass
class File:
    """Facts about a file that is being rewritten. Names are qualified, such as `make.<locals>.mcp`.

    Attributes:
        servers: Servers of version 1.
        contexts: Contexts of requests.
        answers: Results of elicitation.
        samples: Results of sampling.
        registered: Registered functions, with their kind: tool, resource or prompt.
        in_loop: Functions that are not `async`, and use objects that must stay in one thread.
        subclasses: Subclasses of the server's class.
        constructors: Subclasses without an `__init__`.
        served: Constructor arguments of each server that belong to `run` and `asgi`.
        scopes: The functions that use each of these names.
        security: Constructor arguments of each server with rules for hosts.
        taken: Names with another meaning somewhere in the file.
        aliases: Names that the author chose for native objects.
        native: Used names of mcpkit, by their names there.
        modules: Other modules that the rewritten file needs.
        reads_schemas: Whether the file reads `inputSchema` of listed tools.
        keeps_parentheses: Whether `@mcp.tool()` stays unchanged, as all servers come from native files.
    """

    servers: set[str] = field(default_factory=set[str])
    contexts: set[str] = field(default_factory=set[str])
    answers: set[str] = field(default_factory=set[str])
    samples: set[str] = field(default_factory=set[str])
    registered: dict[str, str] = field(default_factory=dict[str, str])
    in_loop: set[str] = field(default_factory=set[str])
    subclasses: set[str] = field(default_factory=set[str])
    constructors: set[str] = field(default_factory=set[str])
    served: dict[str, dict[str, cst.BaseExpression]] = field(
        default_factory=dict[str, dict[str, cst.BaseExpression]]
    )
    scopes: dict[str, dict[str, set[str]]] = field(default_factory=dict[str, dict[str, set[str]]])
    security: dict[str, cst.BaseExpression] = field(default_factory=dict[str, cst.BaseExpression])
    taken: set[str] = field(default_factory=set[str])
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    native: set[str] = field(default_factory=set[str])
    modules: set[str] = field(default_factory=set[str])
    reads_schemas: bool = False
    keeps_parentheses: bool = False

    def name(self, native: str) -> str:
        """Return the name of a native object in the rewritten file, and record its import."""
        self.native.add(native)
        if native in self.aliases:
            return self.aliases[native]
        return _INSTEAD.get(native, f"Mcpkit{native}") if native in self.taken else native


_INSTEAD = {
    "user": "user_message",
    "assistant": "assistant_message",
    "current_context": "current_mcp_context",
    "serve_stdio": "serve_mcp_stdio",
    "Server": "McpServer",
    "Context": "McpContext",
    "Text": "TextBlock",
    "Image": "McpImage",
    "Audio": "McpAudio",
}
"""Aliases for names that a file redefines."""
