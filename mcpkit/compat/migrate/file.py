"""What is known of a file that is being rewritten."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst


@dataclass
class File:
    """What is known of a file that is being rewritten; names are whole, such as `make.<locals>.mcp`.

    Attributes:
        servers: What is a server of version 1.
        contexts: What is the Context of a request.
        answers: What holds the answer of a person.
        samples: What holds the answer of a client's model.
        registered: Functions that are tools, resources and prompts, and which of these.
        in_loop: Functions that are not `async`, and hold what must stay in one thread.
        subclasses: Classes that are derived from the server's.
        constructors: Those of them that are made as the server is, as they have no `__init__` of their own.
        served: What the constructor of each server was given that belongs to `run` and `asgi`.
        scopes: The functions whose names each of these uses.
        security: The rules for hosts that the constructor of each server was given.
        taken: Names that stand for something else somewhere in the file.
        aliases: Names under which the file has what mcpkit has, where they were chosen by the author.
        native: What is used of mcpkit, by its names there.
        modules: Other modules that the rewritten file needs.
        reads_schemas: Whether something reads `inputSchema` of what was listed.
        keeps_parentheses: Whether `@mcp.tool()` stays as it is, as all servers come from files that are native.
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
        """Return the name by which the rewritten file calls something of mcpkit's, and have it imported."""
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
