"""Collection of facts about a file before it is rewritten: what its names refer to."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import libcst as cst
from libcst.metadata import (
    BuiltinScope,
    ImportAssignment,
    ProviderT,
    QualifiedNameProvider,
    Scope,
    ScopeProvider,
)

from .name_tables import CONTEXT_CLASSES, DECORATORS, RENAMED, SERVED, SERVER_CLASSES, THREAD_BOUND
from .rewrite_step import SourceFile, Step
from .syntax import bound, nodes_in, path_of, text_of

USUAL_CONTEXTS = {"ctx", "context", "mcp_ctx"}
_USUAL_SERVERS = {"mcp", "server", "app", "mcp_server", "mcp_app"}
_LOOP_BOUND = frozenset(
    {
        "asyncio.create_task",
        "asyncio.ensure_future",
        "asyncio.get_event_loop",
        "asyncio.get_running_loop",
    }
)


class SymbolCollector(Step):
    """Collects facts about a file.

    Functions that are not `async` are called in the event loop's thread in version 1, and in worker threads in mcpkit.
    Those must stay in one thread that use, directly or in other functions, objects that belong to their thread
    (`sqlite3.connect`, `threading.local`), the event loop, or names that a function rebinds with `global`, as only one
    such function runs at a time in version 1.

    Args:
        file: Known facts: servers that are imported from other files.
    """

    METADATA_DEPENDENCIES: ClassVar[Collection[ProviderT]] = (QualifiedNameProvider, ScopeProvider)

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self._factories: set[str] = set()  # functions that return a server
        self._coroutines: set[str] = set()
        self._uses: dict[str, set[str]] = {}  # names by the function that uses them

    def visit_Module(self, node: cst.Module) -> None:
        """Record the functions that return a server, and the names that the file defines."""
        for each in node.body:
            if isinstance(each, cst.FunctionDef) and each.returns and self._is(each.returns, SERVER_CLASSES):
                self._factories.add(each.name.value)
        for scope in dict.fromkeys(self.get_metadata(ScopeProvider, each, None) for each in nodes_in(node)):
            if isinstance(scope, Scope) and not isinstance(scope, BuiltinScope):
                self._record_assignments(scope)

    def _record_assignments(self, scope: Scope) -> None:
        for assignment in scope.assignments:
            names = assignment.get_qualified_names_for(assignment.name)
            native = {RENAMED[each.name] for each in names if each.name in RENAMED}
            if not native:
                self.file.defined.add(assignment.name)
            elif isinstance(assignment, ImportAssignment) and not any(
                each.name.endswith(f".{assignment.name}") for each in names
            ):
                self.file.aliases[next(iter(native))] = assignment.name

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        """Record a subclass of the server's class."""
        if any(self._is(base.value, SERVER_CLASSES) for base in node.bases):
            names = self.whole_names(node)
            self.file.subclasses |= names
            methods = [each.name.value for each in node.body.body if isinstance(each, cst.FunctionDef)]
            if "__init__" not in methods:
                self.file.constructors |= names
            self.file.servers |= {f"{name}.self" for name in names}

    # Values and annotations of names

    def visit_Assign(self, node: cst.Assign) -> None:
        """Record the value of a name."""
        for target in node.targets:
            self._record_value(target.target, node.value)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        """Record the value of a name, and its annotation."""
        if node.value is not None:
            self._record_value(node.target, node.value)
        self._record_annotation(node.target, node.annotation)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        """Record the value of a name."""
        self._record_value(node.target, node.value)

    def visit_Param(self, node: cst.Param) -> None:
        """Record parameters that are servers and Contexts."""
        if node.annotation is not None:
            self._record_annotation(node.name, node.annotation)
        elif node.name.value in USUAL_CONTEXTS:
            self.file.contexts |= self.whole_names(node.name)

    def _record_annotation(self, target: cst.BaseExpression, annotation: cst.Annotation) -> None:
        if self._is(annotation, SERVER_CLASSES):
            self.file.servers |= self.whole_names(target)
        elif self._is(annotation, CONTEXT_CLASSES):
            self.file.contexts |= self.whole_names(target)

    def _is(self, node: cst.CSTNode, classes: Collection[str]) -> bool:
        """Return True if an annotation contains a class, quoted or not."""
        for each in nodes_in(node):
            if isinstance(each, cst.Name | cst.Attribute) and not self.whole_names(each).isdisjoint(classes):
                return True
            if isinstance(each, cst.SimpleString):
                native = {RENAMED[name] for name in classes}
                names = {name.rpartition(".")[2] for name in classes}
                names |= {self.file.aliases[name] for name in native if name in self.file.aliases}
                words = (text_of(each) or "").replace("[", " ").replace("|", " ").split()
                if not names.isdisjoint(words):
                    return True
        return False

    def _record_value(self, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
        names = self.whole_names(target)
        if self.is_context(value):
            self.file.contexts |= names
        match value:
            case cst.Await(expression=cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=method)))):
                while isinstance(owner, cst.Attribute) and owner.attr.value in {"session", "request_context"}:
                    owner = owner.value
                if method == "create_message":
                    self.file.samples |= names
                elif method in {"elicit", "elicit_url", "elicit_form"} and self.is_context(owner):
                    self.file.elicitations |= names
            case cst.Call(func=function):
                constructor = self.whole_names(function)
                if constructor & (SERVER_CLASSES | self.file.subclasses | self._factories):
                    self.file.servers |= names
                    if constructor & (SERVER_CLASSES | self.file.constructors):
                        self._record_constructor(names, value)
                elif self.method_of_server(function) == "get_context":
                    self.file.contexts |= names
                elif path_of(function) in THREAD_BOUND and not any(
                    each.keyword and each.keyword.value == "check_same_thread" for each in value.args
                ):
                    self.file.in_loop |= names
            case _:
                pass

    def _record_constructor(self, names: set[str], value: cst.Call) -> None:
        arguments = bound(value, ("name", "instructions")) or {}
        served = {name: each.value for name, each in arguments.items() if name in SERVED}
        scopes = {name: self._scopes(value) for name, value in served.items()}
        for name in names:
            self.file.served[name] = served
            self.file.scopes[name] = scopes
            if "transport_security" in arguments:
                self.file.security[name] = arguments["transport_security"].value

    def _scopes(self, value: cst.BaseExpression) -> set[str]:
        """Return the functions that define the names in an expression."""
        names = set[str]().union(*(self.whole_names(each) for each in nodes_in(value)))
        return {name.rpartition(".<locals>.")[0] for name in names if ".<locals>." in name}

    # Registered functions

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Record coroutine functions, and functions with a decorator of a server."""
        names = self.whole_names(node)
        if node.asynchronous is not None:
            self._coroutines |= names
        for decorator in node.decorators:
            function = decorator.decorator
            if isinstance(function, cst.Call):
                function = function.func
            if isinstance(function, cst.Attribute) and self._registers(function):
                self.file.registered |= dict.fromkeys(names, function.attr.value)

    def visit_Call(self, node: cst.Call) -> None:
        """Record functions that are registered without a decorator: `add_tool(f)`, `tool()(f)`."""
        match node:
            case cst.Call(
                args=[first, *_], func=cst.Attribute(attr=cst.Name(value="add_tool"), value=server)
            ):
                pass
            case cst.Call(
                args=[first, *_], func=cst.Call(func=cst.Attribute(attr=cst.Name(value="tool"), value=server))
            ):
                pass
            case _:
                return
        if self.is_server(server):
            self.file.registered |= dict.fromkeys(self.whole_names(first.value), "tool")

    def _registers(self, function: cst.Attribute) -> bool:
        """Return True if `x.tool` belongs to a server; a parameter may have a usual name and no annotation."""
        if function.attr.value not in {*DECORATORS, "completion"}:
            return False
        if self.is_server(function.value):
            return True
        names = self.whole_names(function.value)
        is_usual = isinstance(function.value, cst.Name) and function.value.value in _USUAL_SERVERS
        if is_usual and any(".<locals>." in each for each in names):
            self.file.servers |= names
            return True
        return False

    # Threads

    def visit_Global(self, node: cst.Global) -> None:
        """Record a function that rebinds names of the module."""
        for function in self.functions:
            self.file.in_loop |= function.names

    def visit_Name(self, node: cst.Name) -> None:
        """Record a name that a function uses."""
        self._record_use(node)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Record an attribute that a function uses."""
        self._record_use(node)

    def _record_use(self, node: cst.Name | cst.Attribute) -> None:
        used = self.whole_names(node) if self.functions else set[str]()
        for function in self.functions:
            for name in function.names - used:
                self._uses.setdefault(name, set()).update(used)

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        """Follow the uses until no function is added."""
        found = self.file.in_loop | _LOOP_BOUND
        while added := {name for name, used in self._uses.items() if name not in found and used & found}:
            found |= added
        self.file.in_loop = found - _LOOP_BOUND - self._coroutines
        return updated_node
