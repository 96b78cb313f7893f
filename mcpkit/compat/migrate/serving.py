"""Rewriting of calls that serve: `run` and similar methods, apps, and their settings."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from .file import File
from .http_options import HttpOptions
from .layout import broken
from .names import DEFAULT_SETTINGS, HINTS, SERVED
from .nodes import bound, call, code, is_literal, keyword, path_of, text_of
from .places import Place, Places, Read, Setting
from .step import Step

_ASYNC = {"run_stdio_async": "stdio", "run_sse_async": "sse", "run_streamable_http_async": "http"}
_LOOPS = {"asyncio.run", "anyio.run"}
_WITHOUT_EFFECT = {"debug", "json_response", "log_level"}
_KNOWN_SETTINGS = {*DEFAULT_SETTINGS, *SERVED, "transport_security"}


class Serving(Step):
    """Rewrites calls that serve, with arguments from the constructor and the settings.

    Args:
        file: Facts about the file.

    Attributes:
        homeless: Constructor arguments that no call here takes, by the qualified name of the server.
    """

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self.homeless: dict[str, set[str]] = {}
        self._places: dict[cst.CSTNode, Place] = {}
        self._set_before: set[cst.CSTNode] = set()
        self._values: dict[cst.CSTNode, cst.BaseExpression | None] = {}
        self._is_said = False
        self._handed: set[cst.CSTNode] = set()
        self._options = HttpOptions(file)

    def visit_Module(self, node: cst.Module) -> None:
        """Find calls that serve, and settings before them."""
        found = Places(self.whole_names, self.file.servers)
        node.visit(found)
        self._places = {each.node: each for each in found.places}
        self._values = {each.node: self._value(each, found.settings) for each in found.reads}
        still_read = {each.name for each in found.reads if self._values[each.node] is None}
        self._set_before = {
            each.statement
            for each in found.settings
            if each.name in _WITHOUT_EFFECT or (each.is_taken and each.name in _KNOWN_SETTINGS - still_read)
        }
        for server in self.file.served:
            places = [each for each in found.places if server in each.server]
            self.homeless[server] = self._options.homeless(server, places)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement:
        """Remove a setting that a call has now; separate calls for stdio and HTTP."""
        if original_node in self._set_before:
            return self.drop(updated_node)
        only = original_node.body[0]
        place = self._places.get(only.value) if isinstance(only, cst.Expr) else None
        if place is not None and place.kind == "any" and len(original_node.body) == 1:
            return self._run_by_any(place, updated_node)
        return updated_node

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.BaseStatement:
        """Remove an `if` that only contained settings that a call has now."""
        body = original_node.body.body
        if original_node.orelse is None and all(each in self._set_before for each in body):
            return self.drop(cst.SimpleStatementLine([cst.Pass()], leading_lines=updated_node.leading_lines))
        return updated_node

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Replace the read of a setting by its value; mark one without a counterpart."""
        value = self._values.get(original_node)
        if value is not None:
            return value
        if self._is_settings(original_node.value) and not self._is_said:
            self._is_said = True
            self.mark(f"`settings`: {HINTS['settings']}")
        if original_node in self._places and original_node not in self._handed:
            self.mark("to serve in your own event loop, use `mcpkit.transports.stdio.serve_stdio(server)`")
        return updated_node

    def visit_Call(self, node: cst.Call) -> None:
        """Record a method that is passed to a function that runs it."""
        if path_of(node.func) in _LOOPS and len(node.args) == 1:
            self._handed.add(node.args[0].value)

    def leave_FormattedStringExpression(
        self, original_node: cst.FormattedStringExpression, updated_node: cst.FormattedStringExpression
    ) -> cst.BaseFormattedStringContent:
        """Insert a text into the surrounding text."""
        text = text_of(updated_node.expression)
        if text is None or self._values.get(original_node.expression) is None:
            return updated_node
        return cst.FormattedStringText(text)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite a call that serves, direct or passed to `asyncio.run`."""
        place = self._places.get(original_node)
        if place is not None:
            return self._served(place, updated_node)
        inner = original_node.args[0].value if len(original_node.args) == 1 else None
        place = self._places.get(inner) if inner is not None else None
        if place is not None and path_of(original_node.func) in _LOOPS:
            return self._run(place, _ASYNC[place.method])
        return updated_node

    def _served(self, place: Place, node: cst.Call) -> cst.BaseExpression:
        server = self._server(place)
        if place.kind == "app":
            return broken(call(cst.Attribute(server, cst.Name("asgi")), *self._arguments(place, is_app=True)))
        if place.method == "run_stdio_async":
            return call(self.file.name("serve_stdio"), server)
        if place.method in _ASYNC:
            self.file.modules.add("uvicorn")
            app = call(cst.Attribute(server, cst.Name("asgi")), *self._arguments(place, is_app=True))
            listens = self._options.listens(place)
            config = call("uvicorn.Config", app, *listens)
            return call(cst.Attribute(call("uvicorn.Server", config), cst.Name("serve")))
        if place.kind != "any":
            return self._run(place, place.kind)
        given = bound(node, ("transport", "mount_path"))
        arguments = self._arguments(place, is_app=False)
        if given is None:
            if arguments:
                self.mark(f"for HTTP, pass {', '.join(code(each) for each in arguments)} to run()")
            return node
        return node.with_changes(args=[cst.Arg(given["transport"].value)])

    def _run(self, place: Place, kind: str) -> cst.Call:
        function = cst.Attribute(self._server(place), cst.Name("run"))
        if kind == "stdio":
            return call(function)
        return broken(call(function, cst.SimpleString(f'"{kind}"'), *self._arguments(place, is_app=False)))

    def _run_by_any(
        self, place: Place, statement: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.If:
        """Return the statement, or one for each transport if HTTP has arguments that stdio does not take."""
        only = statement.body[0]
        arguments = self._arguments(place, is_app=False)
        if not arguments or not isinstance(only, cst.Expr) or not isinstance(only.value, cst.Call):
            return statement
        transport = only.value.args[0].value
        if path_of(transport) is None:
            self.mark(f"for HTTP, pass {', '.join(code(each) for each in arguments)} to run()")
            return statement
        test = cst.Comparison(transport, [cst.ComparisonTarget(cst.Equal(), cst.SimpleString('"stdio"'))])
        function = only.value.func
        return cst.If(
            test,
            _block(call(function)),
            orelse=cst.Else(_block(broken(call(function, transport, *arguments)))),
            leading_lines=statement.leading_lines,
        )

    def _arguments(self, place: Place, *, is_app: bool) -> list[cst.Arg]:
        arguments, marks = self._options.of(place, is_app=is_app)
        for text in marks:
            self.mark(text)
        return [keyword(name, value) for name, value in arguments.items()]

    def _server(self, place: Place) -> cst.BaseExpression:
        function = place.node.func if isinstance(place.node, cst.Call) else place.node
        assert isinstance(function, cst.Attribute), "only method calls serve"
        return function.value

    def _is_settings(self, node: cst.BaseExpression) -> bool:
        return self.method_of_server(node) == "settings"

    def _value(self, read: Read, settings: Sequence[Setting]) -> cst.BaseExpression | None:
        """Return the value of a setting at a read; None if it is only known at run time."""
        own = [each for each in settings if each.name == read.name and each.server & read.server]
        if own:
            is_known = len(own) == 1 and read.blocks[: len(own[0].blocks)] == own[0].blocks
            return own[0].value if is_known else None
        for each in read.server & self.file.served.keys():
            value = self.file.served[each].get(read.name)
            if value is not None:
                return value if is_literal(value) else None
            default = DEFAULT_SETTINGS.get(read.name)
            return None if default is None else cst.parse_expression(default)
        return None


def _block(expression: cst.BaseExpression) -> cst.IndentedBlock:
    return cst.IndentedBlock([cst.SimpleStatementLine([cst.Expr(expression)])])
