"""Rewriting of calls that start a server: `run` and similar methods, apps, and the settings for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import libcst as cst

from .name_tables import DEFAULT_SETTINGS, HINTS, SERVED
from .rewrite_step import SourceFile, Step, Values
from .syntax import (
    attribute,
    bound,
    broken,
    call,
    code,
    is_literal,
    is_name,
    keyword,
    nodes_in,
    owner_of,
    path_of,
    set_attribute,
    string,
    text_of,
)

Kind = Literal["stdio", "http", "sse", "any", "app"]
"""Kinds of serving: a known transport, one known only at run time, or an app."""

_TRANSPORTS: dict[str, Kind] = {"stdio": "stdio", "sse": "sse", "streamable-http": "http"}
_APP_METHODS = {"streamable_http_app", "sse_app"}
_ASYNC_METHODS: dict[str, Kind] = {
    "run_stdio_async": "stdio",
    "run_sse_async": "sse",
    "run_streamable_http_async": "http",
}
_LOOP_RUNNERS = {"asyncio.run", "anyio.run"}

_WITHOUT_EFFECT = {"debug", "json_response", "log_level"}
_KNOWN_SETTINGS = {*DEFAULT_SETTINGS, *SERVED, "transport_security"}
_LOCAL_HOSTS = {"127.0.0.1", "localhost", "::1"}
_ANY_HOST = (
    "as in version 1, a server at this address accepts any Host header: list the host names of clients in "
    "allowed_hosts= or public_url="
)
_LOCAL_HOST_ONLY = (
    "requests with another Host header than localhost are rejected: if clients use another name, list it in "
    "allowed_hosts= or public_url="
)


Blocks = tuple[cst.CSTNode, ...]


@dataclass
class RunCall:
    """A call that serves.

    Attributes:
        node: The call, or the method if it is passed to another function.
        server: The qualified names of the server.
        method: Name of the method.
        kind: Transport or kind of app.
        blocks: The blocks around it, from the outermost.
        function: The qualified name of the function around it, or an empty string.
        settings: Settings before it, by name.
    """

    node: cst.CSTNode
    server: set[str]
    method: str
    kind: Kind
    blocks: Blocks
    function: str
    settings: Values = field(default_factory=Values)


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
        is_used: Whether a call that serves has it now.
    """

    statement: cst.SimpleStatementLine
    server: set[str]
    name: str
    value: cst.BaseExpression
    blocks: Blocks
    test: cst.BaseExpression | None
    is_used: bool = False


class _Collector(cst.CSTVisitor):
    """Collects calls that serve, and settings, in order.

    Args:
        names: Returns the qualified names of an expression.
        servers: The qualified names of the servers.
    """

    def __init__(self, names: Callable[[cst.CSTNode], set[str]], servers: set[str]) -> None:
        super().__init__()
        self.calls: list[RunCall] = []
        self.settings: list[Setting] = []
        self.reads: list[tuple[cst.Attribute, set[str], Blocks]] = []  # node, server, and blocks around
        self._names = names
        self._servers = servers
        self._blocks: list[cst.CSTNode] = []
        self._functions: list[str] = [""]
        self._tests: dict[cst.CSTNode, cst.BaseExpression] = {}  # conditions by block
        self._not_reads: set[cst.CSTNode] = set()  # called methods and assigned attributes

    def visit_If(self, node: cst.If) -> None:
        self._tests[node.body] = node.test

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        self._blocks.append(node)

    def leave_IndentedBlock(self, original_node: cst.IndentedBlock) -> None:
        self._blocks.pop()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._functions.append(next(iter(self._names(node)), ""))

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._functions.pop()

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        found = set_attribute(node, "settings")
        if found is not None and (server := self._server(found[0])):
            test = self._tests.get(self._blocks[-1]) if self._blocks else None
            self.settings.append(Setting(node, server, found[1], found[2], tuple(self._blocks), test))

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._not_reads.add(node.target)

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Attribute):
            self._not_reads.add(node.func)
            self._collect(node, node.func, node)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Collect the read of a setting, and a method that serves and is passed to another function."""
        if node in self._not_reads:
            return
        owner = owner_of(node.value, "settings")
        if owner is not None and (server := self._server(owner)):
            self.reads.append((node, server, tuple(self._blocks)))
        if node.attr.value in _ASYNC_METHODS:
            self._collect(node, node, None)

    def _collect(self, node: cst.CSTNode, function: cst.Attribute, run: cst.Call | None) -> None:
        method, server = function.attr.value, self._server(function.value)
        kind: Kind | None = "app" if method in _APP_METHODS else _ASYNC_METHODS.get(method)
        transport = None
        if method == "run" and run is not None:
            arguments = bound(run, ("transport", "mount_path"))
            if arguments is None:
                kind = "any"
            elif "transport" not in arguments:
                kind = "stdio"
            else:
                transport = arguments["transport"].value
                kind = _TRANSPORTS.get(text_of(transport) or "", "any")
        if not server or kind is None:
            return
        found = RunCall(node, server, method, kind, tuple(self._blocks), self._functions[-1])
        for each in self.settings:
            # An `if` that tests the transport contains settings of HTTP
            is_conditional = (
                kind == "any"
                and transport is not None
                and each.test is not None
                and any(part.deep_equals(transport) for part in nodes_in(each.test))
            )
            around = each.blocks[:-1] if is_conditional else each.blocks
            if each.server & server and found.blocks[: len(around)] == around:
                found.settings[each.name] = each.value
                each.is_used = True
        self.calls.append(found)

    def _server(self, node: cst.CSTNode) -> set[str]:
        return self._names(node) & self._servers


class RunCalls(Step):
    """Rewrites calls that serve, with arguments from the constructor and the settings.

    Args:
        file: Facts about the file.

    Attributes:
        unused: Constructor arguments that no call here takes, by the qualified name of the server.
    """

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self.unused: dict[str, set[str]] = {}
        self._calls: dict[cst.CSTNode, RunCall] = {}
        self._replaced: set[cst.CSTNode] = set()  # statements with settings that calls have now
        self._reads: dict[cst.CSTNode, cst.BaseExpression | None] = {}
        self._is_settings_marked = False
        self._passed: set[cst.CSTNode] = set()  # methods that are passed to `asyncio.run`

    def visit_Module(self, node: cst.Module) -> None:
        """Find calls that serve, and settings before them."""
        found = _Collector(self.whole_names, self.file.servers)
        node.visit(found)
        self._calls = {each.node: each for each in found.calls}
        self._reads = {
            node: self._value(node.attr.value, server, blocks, found.settings)
            for node, server, blocks in found.reads
        }
        still_read = {node.attr.value for node, *_ in found.reads if self._reads[node] is None}
        self._replaced = {
            each.statement
            for each in found.settings
            if each.name in _WITHOUT_EFFECT or (each.is_used and each.name in _KNOWN_SETTINGS - still_read)
        }
        for server, served in self.file.served.items():
            calls = [each for each in found.calls if server in each.server]
            over_http = [each for each in calls if each.kind != "stdio"]
            self.unused[server] = {
                name
                for name in served
                if (not calls or over_http)
                and not (over_http and all(self._is_known(server, name, each) for each in over_http))
            }

    # Settings

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement:
        """Remove a setting that a call has now; separate calls for stdio and HTTP."""
        if original_node in self._replaced:
            return self.drop(updated_node)
        only = original_node.body[0]
        found = self._calls.get(only.value) if isinstance(only, cst.Expr) else None
        if found is not None and found.kind == "any" and len(original_node.body) == 1:
            return self._by_transport(found, updated_node)
        return updated_node

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.BaseStatement:
        """Remove an `if` that only contained settings that a call has now."""
        if original_node.orelse is None and all(each in self._replaced for each in original_node.body.body):
            return self.drop(cst.SimpleStatementLine([cst.Pass()], leading_lines=updated_node.leading_lines))
        return updated_node

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Replace the read of a setting by its value; mark one without a counterpart."""
        value = self._reads.get(original_node)
        if value is not None:
            return value
        if self.method_of_server(original_node.value) == "settings" and not self._is_settings_marked:
            self._is_settings_marked = True
            self.mark(f"`settings`: {HINTS['settings']}")
        if original_node in self._calls and original_node not in self._passed:
            self.mark("to serve in your own event loop, use `mcpkit.transports.stdio.serve_stdio(server)`")
        return updated_node

    def leave_FormattedStringExpression(
        self, original_node: cst.FormattedStringExpression, updated_node: cst.FormattedStringExpression
    ) -> cst.BaseFormattedStringContent:
        """Insert a text into the surrounding text."""
        text = text_of(updated_node.expression)
        if text is None or self._reads.get(original_node.expression) is None:
            return updated_node
        return cst.FormattedStringText(text)

    def _value(
        self, name: str, server: set[str], blocks: Blocks, settings: Sequence[Setting]
    ) -> cst.BaseExpression | None:
        """Return the value of a setting at a read in these blocks; None if it is only known at run time."""
        own = [each for each in settings if each.name == name and each.server & server]
        if own:
            is_known = len(own) == 1 and blocks[: len(own[0].blocks)] == own[0].blocks
            return own[0].value if is_known else None
        for each in server & self.file.served.keys():
            value = self.file.served[each].get(name)
            if value is not None:
                return value if is_literal(value) else None
            default = DEFAULT_SETTINGS.get(name)
            return None if default is None else cst.parse_expression(default)
        return None

    # Calls

    def visit_Call(self, node: cst.Call) -> None:
        """Record a method that is passed to a function that runs it."""
        if path_of(node.func) in _LOOP_RUNNERS and len(node.args) == 1:
            self._passed.add(node.args[0].value)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite a call that serves, direct or passed to `asyncio.run`."""
        found = self._calls.get(original_node)
        if found is not None:
            return self._served(found, updated_node)
        found = self._calls.get(original_node.args[0].value) if len(original_node.args) == 1 else None
        if found is not None and path_of(original_node.func) in _LOOP_RUNNERS:
            return self._run(found, _ASYNC_METHODS[found.method])
        return updated_node

    def _served(self, found: RunCall, node: cst.Call) -> cst.BaseExpression:
        if found.method == "run_stdio_async":
            return call(self.file.name("serve_stdio"), _server_of(found))
        if found.kind == "app" or found.method in _ASYNC_METHODS:
            app = call(attribute(_server_of(found), "asgi"), *self._arguments(found, is_app=True))
            if found.kind == "app":
                return broken(app)
            self.file.modules.add("uvicorn")
            values = self._constructor_values(found)
            host, port = values.get("host", string("127.0.0.1")), values.get("port", cst.Integer("8000"))
            config = call("uvicorn.Config", app, keyword("host", host), keyword("port", port))
            return call(attribute(call("uvicorn.Server", config), "serve"))
        if found.kind != "any":
            return self._run(found, found.kind)
        run_arguments = bound(node, ("transport", "mount_path"))
        arguments = self._arguments(found, is_app=False)
        if run_arguments is not None:
            return node.with_changes(args=[cst.Arg(run_arguments["transport"].value)])
        self._mark_http(arguments)
        return node

    def _run(self, found: RunCall, kind: str) -> cst.Call:
        function = attribute(_server_of(found), "run")
        if kind == "stdio":
            return call(function)
        return broken(call(function, string(kind), *self._arguments(found, is_app=False)))

    def _by_transport(
        self, found: RunCall, statement: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.If:
        """Return the statement, or one for each transport if HTTP has arguments that stdio does not take."""
        only = statement.body[0]
        arguments = self._arguments(found, is_app=False)
        if not arguments or not isinstance(only, cst.Expr) or not isinstance(only.value, cst.Call):
            return statement
        function, transport = only.value.func, only.value.args[0].value
        if path_of(transport) is None:
            self._mark_http(arguments)
            return statement
        test = cst.Comparison(transport, [cst.ComparisonTarget(cst.Equal(), string("stdio"))])
        http = _block(broken(call(function, transport, *arguments)))
        return cst.If(
            test, _block(call(function)), orelse=cst.Else(http), leading_lines=statement.leading_lines
        )

    def _mark_http(self, arguments: Iterable[cst.Arg]) -> None:
        if text := ", ".join(map(code, arguments)):
            self.mark(f"for HTTP, pass {text} to run()")

    # Arguments

    def _arguments(self, found: RunCall, *, is_app: bool) -> list[cst.Arg]:
        """Return the arguments of a call from the constructor and the settings; mark what has no counterpart."""
        values = self._constructor_values(found)
        for name in ("sse_path", "message_path", "mount_path"):
            if name in found.settings:
                self.mark(f"{name}: {HINTS[name]}")
        names = ("path", "stateless") if is_app else ("host", "port", "path", "stateless")
        made = {name: values[name] for name in names if name in values}
        if is_name(made.get("stateless"), "False"):
            del made["stateless"]
        security = next(
            (self.file.security[name] for name in found.server if name in self.file.security), None
        )
        security = found.settings.get("transport_security", security)
        if security is not None:
            made |= self._hosts(security)
        elif "host" in values:
            host = values["host"]
            if not is_literal(host):
                self.mark(_LOCAL_HOST_ONLY)
            elif text_of(host) not in _LOCAL_HOSTS:
                made["allowed_hosts"] = cst.parse_expression('["*"]')
                self.mark(_ANY_HOST)
        level = found.settings.get("log_level")
        if level is not None and not is_app:
            text = text_of(level)
            made["log_level"] = call(attribute(level, "lower")) if text is None else string(text.lower())
        return [keyword(name, value) for name, value in made.items()]

    def _hosts(self, security: cst.BaseExpression) -> Values:
        """Return the arguments for `transport_security`."""
        rules = bound(security, ()) if isinstance(security, cst.Call) else None
        if rules is None:
            self.mark("transport_security: pass allowed_hosts= and allowed_origins= here")
            return {}
        switch = rules.get("enable_dns_rebinding_protection")
        if switch is not None and is_name(switch.value, "False"):
            return {name: cst.parse_expression('["*"]') for name in ("allowed_hosts", "allowed_origins")}
        return {name: rules[name].value for name in ("allowed_hosts", "allowed_origins") if name in rules}

    def _constructor_values(self, found: RunCall) -> Values:
        """Return constructor arguments and settings that a call takes, by native name."""
        values: Values = {}
        for server in found.server:
            for name, value in self.file.served.get(server, {}).items():
                if self._is_known(server, name, found):
                    values[SERVED[name]] = value
        values.update((SERVED[name], value) for name, value in found.settings.items() if name in SERVED)
        return values

    def _is_known(self, server: str, name: str, found: RunCall) -> bool:
        """Return True if a constructor argument has the same meaning at the call that serves."""
        return all(f"{found.function}.".startswith(f"{each}.") for each in self.file.scopes[server][name])


def _block(expression: cst.BaseExpression) -> cst.IndentedBlock:
    return cst.IndentedBlock([cst.SimpleStatementLine([cst.Expr(expression)])])


def _server_of(found: RunCall) -> cst.BaseExpression:
    function = found.node.func if isinstance(found.node, cst.Call) else found.node
    assert isinstance(function, cst.Attribute), "only method calls serve"
    return function.value
