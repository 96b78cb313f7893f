"""Rewriting of the server's constructor, of calls that register functions, and removal of its session manager."""

from __future__ import annotations

import re

import libcst as cst

from .name_tables import CONSTRUCTOR, DECORATORS, DEFAULT_SETTINGS, HINTS, SERVED, SERVER_CLASSES
from .rewrite_step import SourceFile, Step, url_text
from .syntax import (
    attribute,
    bound,
    call,
    code,
    comments_of,
    is_docstring,
    is_name,
    keyword,
    nodes_in,
    owner_of,
    path_of,
    set_attribute,
    string,
    text_of,
    with_arguments,
)

_MARKED = {"auth", "token_verifier", "auth_server_provider", "tools"}
_MARKED_UNLESS_DEFAULT = {
    "sse_path",
    "message_path",
    "mount_path",
    "dependencies",
    "max_request_body_size",
    "max_sessions",
    "session_idle_timeout",
}
_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_CONTEXT_MANAGERS = {"asynccontextmanager", "contextlib.asynccontextmanager"}
_WITHOUT_PARENTHESES = {"tool", "prompt"}


class Constructors(Step):
    """Rewrites `FastMCP(...)`. Arguments for `run` and `asgi` were moved before.

    Args:
        file: Facts about the file.
        unused: Arguments that no call in this file takes, by the qualified name of their server.
    """

    def __init__(self, file: SourceFile, unused: dict[str, set[str]]) -> None:
        super().__init__(file)
        self._unused = unused
        self._versions: dict[str, cst.BaseExpression] = {}
        self._before: list[cst.SimpleStatementLine] = []
        self._comments: list[str] = []
        self._targets: dict[cst.CSTNode, set[str]] = {}  # assigned names, by node of an assignment
        self._in_subclass: set[cst.CSTNode] = set()  # the nodes of classes that are servers

    def visit_Module(self, node: cst.Module) -> None:
        """Find the versions that are set on a low-level server, the names of servers, and subclasses."""
        for statement in node.body:
            found = self._version(statement)
            if found is not None:
                self._versions[found[0]] = found[1]
        for each in nodes_in(node):  # inner classes after outer ones
            if isinstance(each, cst.Assign | cst.AnnAssign):
                targets = [each] if isinstance(each, cst.AnnAssign) else each.targets
                names = set[str]().union(*(self.whole_names(target.target) for target in targets))
                self._targets.update(dict.fromkeys(nodes_in(each), names))
            elif isinstance(each, cst.ClassDef) and self.file.subclasses.isdisjoint(self.whole_names(each)):
                self._in_subclass.difference_update(nodes_in(each))
            elif isinstance(each, cst.ClassDef):
                self._in_subclass.update(nodes_in(each))

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite a constructor call, also `super().__init__(...)` in a subclass."""
        owner = owner_of(original_node.func, "__init__")
        is_super = isinstance(owner, cst.Call) and is_name(owner.func, "super")
        is_super = is_super and original_node in self._in_subclass
        is_class = self.whole_names(original_node.func) & (SERVER_CLASSES | self.file.constructors)
        if not is_class and not is_super:
            return updated_node
        arguments = bound(updated_node, CONSTRUCTOR.parameters)
        if arguments is None:
            self.mark(
                "Server does not take host, port, other HTTP options or log_level. Pass them to run() or asgi()"
            )
            return updated_node
        names = self._targets.get(original_node, set[str]())
        self._mark_arguments(arguments, names, in_subclass=original_node in self._in_subclass)
        level = arguments.get("log_level")
        if level is not None and text_of(level.value) != "INFO":
            self.file.modules.add("logging")
            configured = cst.Expr(call("logging.basicConfig", keyword("level", level.value)))
            self._before.append(cst.SimpleStatementLine([configured]))
        added = {"version": self._versions[min(known)]} if (known := names & self._versions.keys()) else {}
        none = {name for name, each in arguments.items() if name != "name" and code(each.value) == "None"}
        without = frozenset({*SERVED, "transport_security", *CONSTRUCTOR.dropped, *none})
        self._comments += comments_of(
            updated_node, [arguments[name] for name in arguments if name in without]
        )
        made = self.native_call(updated_node, CONSTRUCTOR, without=without, added=added)
        assert made is not None, "its arguments have names"
        if "name" not in arguments and not is_super:
            made = made.with_changes(args=[cst.Arg(string("FastMCP")), *made.args])
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

    def _mark_arguments(self, arguments: dict[str, cst.Arg], names: set[str], *, in_subclass: bool) -> None:
        """Mark arguments without a counterpart, and those for `run` that no call in the file takes."""
        for name, argument in arguments.items():
            value = code(argument.value)
            is_empty = isinstance(argument.value, cst.List | cst.Tuple) and not argument.value.elements
            is_default = is_empty or value.replace("'", '"') == DEFAULT_SETTINGS.get(name)
            if value != "None" and (name in _MARKED or (name in _MARKED_UNLESS_DEFAULT and not is_default)):
                self.mark(f"{name}= is not an argument of Server: {HINTS[name]}")
        unused = set[str]().union(*(self._unused.get(name, set[str]()) for name in names))
        if in_subclass:
            unused |= SERVED.keys()
        options = [
            f"{SERVED.get(name, name)}={code(arguments[name].value)}" for name in arguments if name in unused
        ]
        if options:
            self.mark(f'pass {", ".join(options)} to run("http", ...) or asgi(...) of this server')

    def _version(self, statement: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
        """Return server and value of `mcp._mcp_server.version = value`, if the value is known at the constructor."""
        found = set_attribute(statement, "_mcp_server")
        if found is None or found[1] != "version":
            return None
        owner, _, value = found
        servers = self.whole_names(owner) & self.file.servers & self.file.served.keys()
        is_known = text_of(value) is not None or any("." in name for name in self.whole_names(value))
        return (min(servers), value) if servers and is_known else None


class Registrations(Step):
    """Rewrites `@mcp.tool()` and similar decorators, `add_tool`, `remove_tool` and other methods of the server."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self._tools: set[tuple[str, str]] = set()  # scope and name
        self._marked: set[str] = set()
        self._decorators: set[cst.CSTNode] = set()

    def visit_Decorator(self, node: cst.Decorator) -> None:
        """Record the call of a decorator."""
        self._decorators.add(node.decorator)

    def leave_Decorator(self, original_node: cst.Decorator, updated_node: cst.Decorator) -> cst.Decorator:
        """Remove empty parentheses."""
        before, made = original_node.decorator, updated_node.decorator
        method = self.method_of_server(before.func if isinstance(before, cst.Call) else before)
        may_be_bare = method in _WITHOUT_PARENTHESES and not self.file.keeps_parentheses
        if may_be_bare and isinstance(made, cst.Call) and not made.args:
            return updated_node.with_changes(decorator=made.func)
        return updated_node

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        """Write `-> CallToolResult` for `-> Annotated[CallToolResult, M]`: M is an option of the decorator."""
        returns = updated_node.returns
        if returns is not None and self._result_schema(original_node) is not None:
            assert isinstance(returns.annotation, cst.Subscript)
            result = returns.annotation.slice[0].slice
            assert isinstance(result, cst.Index)
            return updated_node.with_changes(returns=returns.with_changes(annotation=result.value))
        return updated_node

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Mark access to internals of the server of version 1."""
        name = self.method_of_server(node)
        if name is not None and name.startswith("_") and name in HINTS and name not in self._marked:
            self._marked.add(name)
            self.mark(f"`{name}`: {HINTS[name]}")

    def leave_Await(self, original_node: cst.Await, updated_node: cst.Await) -> cst.BaseExpression:
        """Remove `await` before the list of tools."""
        made = original_node.expression
        if isinstance(made, cst.Call) and self.method_of_server(made.func) == "list_tools":
            assert isinstance(made.func, cst.Attribute)
            if self.file.reads_schemas:
                self.mark("these are tools of mcpkit: use tool.schemas(revision) for both schemas")
            return call("list", attribute(made.func.value, "tools"))
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite a call of a server's method, and a call of its return value."""
        inner = updated_node.func
        if isinstance(inner, cst.Call) and isinstance(original_node.func, cst.Call):
            method = self.method_of_server(original_node.func.func)
            is_bare = method in _WITHOUT_PARENTHESES and not inner.args and len(updated_node.args) == 1
            return updated_node.with_changes(func=inner.func) if is_bare else updated_node
        method = self.method_of_server(original_node.func)
        if method is None or not isinstance(inner, cst.Attribute):
            return updated_node
        if method in DECORATORS:
            return self._registered(method, original_node, updated_node)
        made = self._other(method, original_node, updated_node, inner.value)
        if made is None and method in HINTS:
            self.mark(f"`{method}` has no equivalent: {HINTS[method]}")
        return updated_node if made is None else made

    def _registered(self, method: str, original: cst.Call, node: cst.Call) -> cst.Call:
        """Return the native form of a call that registers a function, or returns a decorator."""
        form = DECORATORS[method]
        arguments = bound(node, form.parameters) or {}
        function = self.functions[-1].node if original in self._decorators and self.functions else None
        added: dict[str, cst.BaseExpression] = {}
        structured = arguments.get("structured_output")
        if structured is not None and code(structured.value) not in {"True", "None"}:
            options = self.file.name("ResultOptions")
            added["result"] = call(options, keyword("structured", structured.value))
        if form.native == "tool":
            self._check_name(arguments, function)
            schema = None if function is None else self._result_schema(function)
            if schema is not None:
                added["output_schema"] = schema
        registered: cst.CSTNode | None = function
        if function is None and "fn" in arguments:
            registered = arguments["fn"].value
        if registered is not None and not self.whole_names(registered).isdisjoint(self.file.in_loop):
            added["run_in"] = string("loop")
        methods = arguments["methods"].value if "methods" in arguments else None
        is_get = isinstance(methods, cst.List) and [text_of(each.value) for each in methods.elements] == [
            "GET"
        ]
        made = self.native_call(node, form, without={"methods"} if is_get else (), added=added)
        if made is None:
            self.mark(f"the options of {form.native} have other names than in version 1")
            return node
        assert isinstance(node.func, cst.Attribute)
        return made.with_changes(func=node.func.with_changes(attr=cst.Name(form.native)))

    def _result_schema(self, function: cst.FunctionDef) -> cst.BaseExpression | None:
        """Return M of a function `-> Annotated[CallToolResult, M]`."""
        match function.returns.annotation if function.returns else None:
            case cst.Subscript(
                slice=[
                    cst.SubscriptElement(slice=cst.Index(value=result)),
                    cst.SubscriptElement(slice=cst.Index(value=schema)),
                ]
            ) if "mcp.types.CallToolResult" in self.imported_names(result):
                return schema
            case _:
                return None

    def _check_name(self, arguments: dict[str, cst.Arg], function: cst.FunctionDef | None) -> None:
        """Mark the name of a tool that mcpkit refuses."""
        name = text_of(arguments["name"].value) if "name" in arguments else None
        if "name" not in arguments and function is not None:
            name = function.name.value
        if name is None:
            return
        if not _TOOL_NAME.fullmatch(name):
            self.mark("the name of a tool must be 1 to 128 of A-Z a-z 0-9 _ - . here: rename it")
        scope = next(iter(self.whole_names(function)), "").rpartition(".")[0] if function else ""
        if (scope, name) in self._tools:
            self.mark(
                f"a tool {name!r} exists already: version 1 used the first, mcpkit rejects the second. "
                "Rename or remove one of them"
            )
        self._tools.add((scope, name))

    def _other(
        self, method: str, original: cst.Call, node: cst.Call, server: cst.BaseExpression
    ) -> cst.Call | None:
        """Return the native form of another method of the server; None if there is none."""
        if method == "get_context" and not node.args:
            return call(self.file.name("current_context"))
        if len(node.args) != 1:
            return None
        if method == "remove_tool":
            return node.with_changes(func=attribute(server, "tools.remove"))
        made, before = node.args[0].value, original.args[0].value
        if isinstance(made, cst.Call) and isinstance(before, cst.Call):
            if method == "add_prompt" and self._calls(before, "Prompt.from_function"):
                return made.with_changes(func=attribute(server, "prompt"))
            if method == "add_resource":
                return self._resource(before, made, server)
        return None

    def _resource(self, original: cst.Call, made: cst.Call, server: cst.BaseExpression) -> cst.Call | None:
        """Return `server.resource(uri, ...)(function)` for a resource of version 1 that is an object."""
        arguments = bound(made, ()) or {}
        if "uri" not in arguments:
            return None
        target: cst.BaseExpression
        if self._calls(original, "FunctionResource", "FunctionResource.from_function") and "fn" in arguments:
            target = arguments.pop("fn").value
        elif self._calls(original, "TextResource") and {"text", "name"} <= arguments.keys():
            target = cst.Lambda(cst.Parameters(), arguments.pop("text").value)
        elif self._calls(original, "FileResource") and {"path", "name"} <= arguments.keys():
            arguments.pop("is_binary", None)
            path = arguments.pop("path").value
            target = cst.Lambda(cst.Parameters(), call(self.file.name("File"), path))
        else:
            return None
        uri = cst.Arg(url_text(arguments.pop("uri").value))
        options = [
            each.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=cst.SimpleWhitespace(""))
            for each in arguments.values()
        ]
        return call(call(attribute(server, "resource"), uri, *options), target)

    def _calls(self, node: cst.Call, *names: str) -> bool:
        """Return True if an expression calls one of these functions of version 1."""
        return any(
            each.startswith("mcp.") and each.endswith(tuple(f".{name}" for name in names))
            for each in self.whole_names(node.func)
        )


# Code that runs the session manager, as mcpkit's app runs it itself


class SessionManager(Step):
    """Removes code that runs the session manager of a server."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self._handled: set[cst.CSTNode] = set()

    def visit_With(self, node: cst.With) -> None:
        """Find context managers that are entered."""
        for each in node.items:
            self._find(each.item)

    def leave_With(
        self, original_node: cst.With, updated_node: cst.With
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """Remove the session manager; without another context manager, remove the `with` statement."""
        kept = [
            each
            for each, before in zip(updated_node.items, original_node.items, strict=True)
            if not self._runs_manager(before.item)
        ]
        if len(kept) == len(updated_node.items):
            return updated_node
        if kept:
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            return updated_node.with_changes(items=kept)
        body = [each for each in updated_node.body.body if isinstance(each, cst.BaseStatement)]
        if body and isinstance(body[0], cst.SimpleStatementLine | cst.BaseCompoundStatement):
            lines = [*updated_node.leading_lines, *body[0].leading_lines]
            body[0] = body[0].with_changes(leading_lines=lines)
        return cst.FlattenSentinel(body)

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        """Find statements that enter it in an exit stack."""
        self._find(_stack_item(node))

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        """Remove statements that enter it in an exit stack."""
        return self.drop(updated_node) if self._runs_manager(_stack_item(original_node)) else updated_node

    def visit_Call(self, node: cst.Call) -> None:
        """Find a lifespan that only runs it."""
        for each in node.args:
            if isinstance(each.value, cst.Lambda):
                self._find(each.value.body)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Remove a lifespan that only runs it."""
        kept = [
            each
            for each, before in zip(updated_node.args, original_node.args, strict=True)
            if not (isinstance(before.value, cst.Lambda) and self._runs_manager(before.value.body))
        ]
        return updated_node if len(kept) == len(updated_node.args) else with_arguments(updated_node, kept)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Mark any other use of it."""
        if node not in self._handled and self.method_of_server(node) == "session_manager":
            self.mark(f"`session_manager`: {HINTS['session_manager']}")

    def _find(self, node: cst.BaseExpression | None) -> None:
        if self._runs_manager(node):
            assert isinstance(node, cst.Call)
            assert isinstance(node.func, cst.Attribute)
            self._handled.add(node.func.value)

    def _runs_manager(self, node: cst.BaseExpression | None) -> bool:
        manager = owner_of(node.func, "run") if isinstance(node, cst.Call) else None
        return manager is not None and self.method_of_server(manager) == "session_manager"


def _stack_item(node: cst.SimpleStatementLine) -> cst.BaseExpression | None:
    """Return the context manager in `await stack.enter_async_context(...)`."""
    match node.body[0]:
        case cst.Expr(value=cst.Await(expression=cst.Call(func=function, args=[only]))):
            return only.value if owner_of(function, "enter_async_context") else None
        case _:
            return None


class EmptyLifespans(Step):
    """Removes functions that only contain `yield` after the session manager was removed.

    They are removed if they are only used as `lifespan=` of outer apps.
    """

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self._empty: set[str] = set()

    def visit_Module(self, node: cst.Module) -> None:
        """Find the functions."""
        functions = [each for each in node.body if isinstance(each, cst.FunctionDef)]
        empty = {each.name.value for each in functions if _is_empty(each)}
        nodes = nodes_in(node) if empty else []
        arguments = [each for each in nodes if isinstance(each, cst.Arg)]
        lifespans = [_lifespan(each) for each in arguments]
        no_uses = {each.name for each in nodes if isinstance(each, cst.FunctionDef)}
        no_uses |= {each.keyword for each in arguments if each.keyword}
        uses = [each.value for each in nodes if isinstance(each, cst.Name) and each not in no_uses]
        self._empty = {name for name in empty if 0 < lifespans.count(name) == uses.count(name)}

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef | cst.RemovalSentinel:
        """Remove the function."""
        is_removed = updated_node.name.value in self._empty and _is_empty(original_node)
        return cst.RemoveFromParent() if is_removed else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        """Remove `lifespan=`."""
        kept = [each for each in updated_node.args if _lifespan(each) not in self._empty]
        return updated_node if len(kept) == len(updated_node.args) else with_arguments(updated_node, kept)


def _lifespan(node: cst.Arg) -> str | None:
    """Return the name in `lifespan=name`."""
    is_lifespan = node.keyword is not None and node.keyword.value == "lifespan"
    return node.value.value if is_lifespan and isinstance(node.value, cst.Name) else None


def _is_empty(node: cst.FunctionDef) -> bool:
    """Return True for a context manager that only contains `yield`."""
    if not any(path_of(each.decorator) in _CONTEXT_MANAGERS for each in node.decorators):
        return False
    match [each for each in node.body.body if not is_docstring(each)]:
        case [cst.SimpleStatementLine(body=[cst.Expr(value=cst.Yield(value=None))])]:
            return True
        case _:
            return False
