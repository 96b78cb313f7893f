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

from .file import File
from .names import CONTEXT_CLASSES, DECORATORS, OF_THREADS, RENAMED, SERVED, SERVER_CLASSES
from .nodes import bound, nodes_in, path_of, text_of
from .step import Step

_USUAL_NAMES = {"mcp", "server", "app", "mcp_server", "mcp_app"}
USUAL_CONTEXTS = {"ctx", "context", "mcp_ctx"}
_CONSTRUCTOR = ("name", "instructions")


class Facts(Step):
    """Collects facts about a file.

    Args:
        file: Known facts: servers that are imported from other files.
    """

    METADATA_DEPENDENCIES: ClassVar[Collection[ProviderT]] = (QualifiedNameProvider, ScopeProvider)

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self._makers: set[str] = set()

    def visit_Module(self, node: cst.Module) -> None:
        """Record the functions that return a server, and taken names."""
        for each in node.body:
            if isinstance(each, cst.FunctionDef) and each.returns and self._is(each.returns, SERVER_CLASSES):
                self._makers.add(each.name.value)
        seen: set[Scope] = set()
        for child in nodes_in(node):
            scope = self.get_metadata(ScopeProvider, child, None)
            if scope is None or scope in seen or isinstance(scope, BuiltinScope):
                continue
            seen.add(scope)
            for assignment in scope.assignments:
                names = assignment.get_qualified_names_for(assignment.name)
                native = {RENAMED[each.name] for each in names if each.name in RENAMED}
                if isinstance(assignment, ImportAssignment) and native:
                    name = next(iter(native))
                    if any(each.name.endswith(f".{assignment.name}") for each in names):
                        continue
                    self.file.aliases[name] = assignment.name
                elif not native:
                    self.file.taken.add(assignment.name)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        """Record a subclass of the server's class."""
        if any(self._is(base.value, SERVER_CLASSES) for base in node.bases):
            self.file.subclasses |= self.whole_names(node)
            methods = [each.name.value for each in node.body.body if isinstance(each, cst.FunctionDef)]
            if "__init__" not in methods:
                self.file.constructors |= self.whole_names(node)
            self.file.servers |= {f"{name}.self" for name in self.whole_names(node)}

    def visit_Assign(self, node: cst.Assign) -> None:
        """Record the value of a name."""
        for target in node.targets:
            self._assigned(target.target, node.value)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        """Record the value of a name, and its annotation."""
        if node.value is not None:
            self._assigned(node.target, node.value)
        if self._is(node.annotation, SERVER_CLASSES):
            self.file.servers |= self.whole_names(node.target)
        elif self._is(node.annotation, CONTEXT_CLASSES):
            self.file.contexts |= self.whole_names(node.target)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        """Record the value of a name."""
        self._assigned(node.target, node.value)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Record registered functions."""
        for decorator in node.decorators:
            function = decorator.decorator
            if isinstance(function, cst.Call):
                function = function.func
            if isinstance(function, cst.Attribute) and self._serves(function):
                self.file.registered |= dict.fromkeys(self.whole_names(node), function.attr.value)

    def visit_Call(self, node: cst.Call) -> None:
        """Record functions that are registered without a decorator."""
        function = node.func
        if not node.args:
            return
        is_tool = isinstance(function, cst.Attribute) and function.attr.value == "add_tool"
        if isinstance(function, cst.Call):
            is_tool = isinstance(function.func, cst.Attribute) and function.func.attr.value == "tool"
            function = function.func
        if is_tool and isinstance(function, cst.Attribute) and self.is_server(function.value):
            self.file.registered |= dict.fromkeys(self.whole_names(node.args[0].value), "tool")

    def visit_Param(self, node: cst.Param) -> None:
        """Record parameters that are servers and Contexts."""
        if node.annotation is None:
            if node.name.value in USUAL_CONTEXTS:
                self.file.contexts |= self.whole_names(node.name)
        elif self._is(node.annotation, SERVER_CLASSES):
            self.file.servers |= self.whole_names(node.name)
        elif self._is(node.annotation, CONTEXT_CLASSES):
            self.file.contexts |= self.whole_names(node.name)

    def _serves(self, function: cst.Attribute) -> bool:
        """Return True if `x.tool` belongs to a server; a parameter may have a usual name and no annotation."""
        if function.attr.value not in {*DECORATORS, "completion"}:
            return False
        if self.is_server(function.value):
            return True
        names = self.whole_names(function.value)
        is_usual = isinstance(function.value, cst.Name) and function.value.value in _USUAL_NAMES
        if is_usual and any(".<locals>." in each for each in names):
            self.file.servers |= names
            return True
        return False

    def _is(self, node: cst.CSTNode, classes: Collection[str]) -> bool:
        """Return True if an annotation contains a class, quoted or not."""
        for each in nodes_in(node):
            if isinstance(each, cst.Name | cst.Attribute) and not self.whole_names(each).isdisjoint(classes):
                return True
            if isinstance(each, cst.SimpleString):
                text = text_of(each) or ""
                native = {RENAMED[name] for name in classes}
                names = {name.rpartition(".")[2] for name in classes}
                names |= {self.file.aliases[name] for name in native if name in self.file.aliases}
                if any(word in names for word in text.replace("[", " ").replace("|", " ").split()):
                    return True
        return False

    def _assigned(self, target: cst.BaseExpression, value: cst.BaseExpression) -> None:
        names = self.whole_names(target)
        if self.is_context(value):
            self.file.contexts |= names
        if isinstance(value, cst.Await):
            self._answered(names, value.expression)
        if not isinstance(value, cst.Call):
            return
        function = value.func
        made_by = self.whole_names(function)
        if made_by & (SERVER_CLASSES | self.file.subclasses | self._makers):
            self.file.servers |= names
            if made_by & (SERVER_CLASSES | self.file.constructors):
                self._constructed(names, value)
        elif self.method_of_server(function) == "get_context":
            self.file.contexts |= names
        elif _is_bound_to_thread(value):
            self.file.in_loop |= names

    def _scopes(self, value: cst.BaseExpression) -> set[str]:
        """Return the functions that an expression uses by name."""
        names = set[str]().union(*(self.whole_names(each) for each in nodes_in(value)))
        return {name.rpartition(".<locals>.")[0] for name in names if ".<locals>." in name}

    def _answered(self, names: set[str], value: cst.BaseExpression) -> None:
        if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
            return
        owner, method = value.func.value, value.func.attr.value
        while isinstance(owner, cst.Attribute) and owner.attr.value in {"session", "request_context"}:
            owner = owner.value
        if self.is_context(owner) or method == "create_message":
            if method in {"elicit", "elicit_url", "elicit_form"}:
                self.file.answers |= names
            elif method == "create_message":
                self.file.samples |= names

    def _constructed(self, names: set[str], value: cst.Call) -> None:
        given = bound(value, _CONSTRUCTOR) or {}
        served = {name: given[name].value for name in given if name in SERVED}
        scopes = {name: self._scopes(value) for name, value in served.items()}
        for name in names:
            self.file.served[name] = served
            self.file.scopes[name] = scopes
            if "transport_security" in given:
                self.file.security[name] = given["transport_security"].value


def _is_bound_to_thread(node: cst.Call) -> bool:
    """Return True if a call creates an object that only its thread may use."""
    may_move = any(each.keyword and each.keyword.value == "check_same_thread" for each in node.args)
    return path_of(node.func) in OF_THREADS and not may_move
