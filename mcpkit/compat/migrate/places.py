"""Calls in a file that serve a server, and settings before them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import libcst as cst

from .nodes import bound, nodes_in, text_of

Kind = Literal["stdio", "http", "sse", "any", "app"]
"""Kinds of serving: a known transport, one known only at run time, or an app."""

_APPS = {"streamable_http_app": "http", "sse_app": "sse"}
_RUNS: dict[str, Kind] = {
    "run_stdio_async": "stdio",
    "run_sse_async": "sse",
    "run_streamable_http_async": "http",
}


@dataclass
class Place:
    """A call that serves.

    Attributes:
        node: The call, or the method if it is passed to another function.
        server: The qualified names of the server.
        method: Name of the method.
        kind: Transport or kind of app.
        blocks: The blocks around it, from the outermost.
        inside: The qualified name of the function around it, or an empty string.
        settings: Settings before it, by name.
    """

    node: cst.CSTNode
    server: set[str]
    method: str
    kind: Kind
    blocks: tuple[int, ...]
    inside: str
    settings: dict[str, cst.BaseExpression] = field(default_factory=dict[str, cst.BaseExpression])


@dataclass
class Setting:
    """A statement such as `mcp.settings.port = 80`.

    Attributes:
        statement: The line.
        server: The qualified names of the server.
        name: Name of the setting.
        value: New value.
        blocks: The blocks around it, from the outermost.
        test: The condition of the `if` around it, if there is one.
        is_taken: Whether a call that serves has it now.
    """

    statement: cst.SimpleStatementLine
    server: set[str]
    name: str
    value: cst.BaseExpression
    blocks: tuple[int, ...]
    test: cst.BaseExpression | None
    is_taken: bool = False


@dataclass
class Read:
    """A read of a setting.

    Attributes:
        node: The expression.
        server: The qualified names of the server.
        name: Name of the setting.
        blocks: The blocks around it, from the outermost.
    """

    node: cst.CSTNode
    server: set[str]
    name: str
    blocks: tuple[int, ...]


class Places(cst.CSTVisitor):
    """Collects calls that serve, and settings, in order.

    Args:
        names: Returns the qualified names of an expression.
        servers: The qualified names of the servers.
    """

    def __init__(self, names: Callable[[cst.CSTNode], set[str]], servers: set[str]) -> None:
        super().__init__()
        self.places: list[Place] = []
        self.settings: list[Setting] = []
        self.reads: list[Read] = []
        self._names = names
        self._servers = servers
        self._blocks: list[int] = []
        self._functions: list[str] = [""]
        self._count = 0
        self._bodies: dict[cst.CSTNode, cst.BaseExpression] = {}
        self._tests: dict[int, cst.BaseExpression] = {}
        self._called: set[cst.CSTNode] = set()

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        """Enter a block."""
        self._count += 1
        self._blocks.append(self._count)
        if node in self._bodies:
            self._tests[self._count] = self._bodies[node]

    def visit_If(self, node: cst.If) -> None:
        """Record the condition of a block."""
        if isinstance(node.body, cst.IndentedBlock):
            self._bodies[node.body] = node.test

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock) -> None:
        """Leave it."""
        self._blocks.pop()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Enter a function."""
        self._functions.append(next(iter(self._names(node)), ""))

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        """Leave it."""
        self._functions.pop()

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        """Collect a setting."""
        only = node.body[0]
        if len(node.body) != 1 or not isinstance(only, cst.Assign) or len(only.targets) != 1:
            return
        target = only.targets[0].target
        if not isinstance(target, cst.Attribute) or not isinstance(target.value, cst.Attribute):
            return
        server = self._server(target.value.value)
        if server and target.value.attr.value == "settings":
            blocks = tuple(self._blocks)
            test = self._tests.get(blocks[-1]) if blocks else None
            self.settings.append(Setting(node, server, target.attr.value, only.value, blocks, test))

    def visit_Call(self, node: cst.Call) -> None:
        """Collect a call that serves."""
        if isinstance(node.func, cst.Attribute):
            self._called.add(node.func)
            self._collect(node, node.func, node)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        """Distinguish assigned settings from reads."""
        self._called.add(node.target)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Collect a method that serves and is passed to another function, and a read of a setting."""
        inner = node.value
        if node not in self._called and isinstance(inner, cst.Attribute) and inner.attr.value == "settings":
            server = self._server(inner.value)
            if server:
                self.reads.append(Read(node, server, node.attr.value, tuple(self._blocks)))
        if node not in self._called and node.attr.value in _RUNS:
            self._collect(node, node, None)

    def _collect(self, node: cst.CSTNode, function: cst.Attribute, call: cst.Call | None) -> None:
        method, server = function.attr.value, self._server(function.value)
        if not server:
            return
        kind: Kind | None = "app" if method in _APPS else _RUNS.get(method)
        if method == "run" and call is not None:
            kind = transport_of(call)
        if kind is None:
            return
        place = Place(node, server, method, kind, tuple(self._blocks), self._functions[-1])
        for each in self.settings:
            around = each.blocks[:-1] if _is_of(each.test, call, kind) else each.blocks
            if each.server & server and place.blocks[: len(around)] == around:
                place.settings[each.name] = each.value
                each.is_taken = True
        self.places.append(place)

    def _server(self, node: cst.CSTNode) -> set[str]:
        return self._names(node) & self._servers


def transport_of(node: cst.Call) -> Kind:
    """Return the transport of `run(...)`."""
    given = bound(node, ("transport", "mount_path"))
    if given is None:
        return "any"
    if "transport" not in given:
        return "stdio"
    known: dict[str, Kind] = {"stdio": "stdio", "sse": "sse", "streamable-http": "http"}
    return known.get(text_of(given["transport"].value) or "", "any")


def _is_of(test: cst.BaseExpression | None, call: cst.Call | None, kind: Kind) -> bool:
    """Return True if an `if` tests the transport of a call, so that it contains settings of HTTP."""
    given = bound(call, ("transport", "mount_path")) if call is not None and kind == "any" else None
    if test is None or given is None or "transport" not in given:
        return False
    return any(each.deep_equals(given["transport"].value) for each in nodes_in(test))
