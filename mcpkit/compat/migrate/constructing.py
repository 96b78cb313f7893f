"""Rewriting of the server's constructor."""

from __future__ import annotations

import libcst as cst

from .file import File
from .layout import comments_of
from .names import CONSTRUCTOR, DEFAULT_SETTINGS, HINTS, SERVED, SERVER_CLASSES
from .nodes import bound, call, code, keyword, path_of, text_of
from .reshaping import reshaped
from .step import Step

_ALWAYS = {"auth", "token_verifier", "auth_server_provider", "tools"}
_UNLESS_DEFAULT = {
    "sse_path",
    "message_path",
    "mount_path",
    "dependencies",
    "max_request_body_size",
    "max_sessions",
    "session_idle_timeout",
}


class Constructing(Step):
    """Rewrites `FastMCP(...)`. Arguments for `run` and `asgi` were moved before.

    Args:
        file: Facts about the file.
        homeless: Arguments that no call in this file takes, by the qualified name of their server.
    """

    def __init__(self, file: File, homeless: dict[str, set[str]]) -> None:
        super().__init__(file)
        self._homeless = homeless
        self._versions: dict[str, cst.BaseExpression] = {}
        self._before: list[cst.SimpleStatementLine] = []
        self._targets: list[set[str]] = []
        self._comments: list[str] = []
        self._classes: list[bool] = []

    def visit_Module(self, node: cst.Module) -> None:
        """Find the versions that are set on a low-level server."""
        for statement in node.body:
            found = self._version(statement)
            if found is not None:
                self._versions[found[0]] = found[1]

    def visit_Assign(self, node: cst.Assign) -> None:
        """Record the name of the server."""
        self._targets.append(set[str]().union(*(self.whole_names(each.target) for each in node.targets)))

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        """Clear the name of the server."""
        self._targets.pop()
        return updated_node

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        """Record the name of the server."""
        self._targets.append(self.whole_names(node.target))

    def leave_AnnAssign(self, original_node: cst.AnnAssign, updated_node: cst.AnnAssign) -> cst.AnnAssign:
        """Clear the name of the server."""
        self._targets.pop()
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite a constructor call."""
        makes = not self.whole_names(original_node.func).isdisjoint(SERVER_CLASSES | self.file.constructors)
        if not makes and not self._is_of_subclass(original_node):
            return updated_node
        given = bound(updated_node, CONSTRUCTOR.parameters)
        if given is None:
            self.mark(
                "Server does not take host, port, other HTTP options or log_level. Pass them to run() or asgi()"
            )
            return updated_node
        names = self._targets[-1] if self._targets else set[str]()
        self._warn(given, names)
        if (level := given.get("log_level")) is not None and text_of(level.value) != "INFO":
            self._log_at(level.value)
        added: dict[str, cst.BaseExpression] = {}
        for name in names & self._versions.keys():
            added["version"] = self._versions[name]
        nothing = {name for name, each in given.items() if name != "name" and code(each.value) == "None"}
        without = frozenset({*SERVED, "transport_security", *CONSTRUCTOR.dropped, *nothing})
        self._comments += comments_of(updated_node, [given[name] for name in given if name in without])
        made = reshaped(updated_node, CONSTRUCTOR, self.file, without=without, added=added)
        assert made is not None
        if "name" not in given and not self._is_of_subclass(original_node):
            made = made.with_changes(args=[cst.Arg(cst.SimpleString('"FastMCP"')), *made.args])
        return made

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """Insert statements before the one that creates the server; remove those that the constructor replaces."""
        if self._version(original_node) is not None:
            return self.drop(updated_node)
        if self._comments:
            comments = [cst.EmptyLine(comment=cst.Comment(each)) for each in self._comments]
            self._comments = []
            updated_node = updated_node.with_changes(leading_lines=[*updated_node.leading_lines, *comments])
        if not self._before:
            return updated_node
        before, self._before = self._before, []
        first = before[0].with_changes(leading_lines=updated_node.leading_lines)
        return cst.FlattenSentinel([first, *before[1:], updated_node.with_changes(leading_lines=())])

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        """Go into a class."""
        self._classes.append(not self.file.subclasses.isdisjoint(self.whole_names(node)))

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        """Leave it."""
        self._classes.pop()
        return updated_node

    def _is_of_subclass(self, node: cst.Call) -> bool:
        """Return True for `super().__init__(...)` in a subclass of the server's class."""
        function = node.func
        return (
            isinstance(function, cst.Attribute)
            and function.attr.value == "__init__"
            and isinstance(function.value, cst.Call)
            and path_of(function.value.func) == "super"
            and bool(self._classes)
            and self._classes[-1]
        )

    def _warn(self, given: dict[str, cst.Arg], names: set[str]) -> None:
        for name, argument in given.items():
            default = DEFAULT_SETTINGS.get(name)
            if code(argument.value) != "None" and (
                name in _ALWAYS or (name in _UNLESS_DEFAULT and not _is(argument.value, default))
            ):
                self.mark(f"{name}= is not an argument of Server: {HINTS[name]}")
        homeless = set[str]().union(*(self._homeless.get(name, set[str]()) for name in names))
        if self._classes and self._classes[-1]:
            homeless |= SERVED.keys()
        options = [
            f"{SERVED.get(name, name)}={code(given[name].value)}" for name in given if name in homeless
        ]
        if options:
            self.mark(f'pass {", ".join(options)} to run("http", ...) or asgi(...) of this server')

    def _log_at(self, level: cst.BaseExpression) -> None:
        self.file.modules.add("logging")
        configured = cst.Expr(call("logging.basicConfig", keyword("level", level)))
        self._before.append(cst.SimpleStatementLine([configured]))

    def _version(self, statement: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
        """Return server and value of `mcp._mcp_server.version = value`, if the value is known at the constructor."""
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return None
        only = statement.body[0]
        if not isinstance(only, cst.Assign) or len(only.targets) != 1:
            return None
        target = only.targets[0].target
        if not (path_of(target) or "").endswith("._mcp_server.version"):
            return None
        assert isinstance(target, cst.Attribute)
        assert isinstance(target.value, cst.Attribute)
        servers = self.whole_names(target.value.value) & self.file.servers
        is_known = text_of(only.value) is not None or any(
            "." in name for name in self.whole_names(only.value)
        )
        if not servers or not is_known or not servers & self.file.served.keys():
            return None
        return next(iter(servers)), only.value


def _is(node: cst.BaseExpression, default: str | None) -> bool:
    empty = isinstance(node, cst.List | cst.Tuple) and not node.elements
    return empty or (default is not None and code(node).replace("'", '"') == default)
