"""Rewriting of registrations: decorators, and calls with the same effect."""

from __future__ import annotations

import re

import libcst as cst

from .file import File
from .names import DECORATORS, HINTS
from .nodes import bound, call, code, keyword, text_of
from .reshaping import reshaped, url_text
from .step import Step

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_BARE = {"tool", "prompt"}


class Registering(Step):
    """Rewrites `@mcp.tool()` and similar decorators, `add_tool` and `remove_tool`."""

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self._function: list[cst.FunctionDef] = []
        self._names: dict[tuple[str, str], int] = {}
        self._said: set[str] = set()
        self._is_decorator: set[cst.CSTNode] = set()

    def visit_Decorator(self, node: cst.Decorator) -> None:
        """Record the call of a decorator."""
        self._is_decorator.add(node.decorator)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Record the decorated function."""
        self._function.append(node)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        """Return to the outer function."""
        self._function.pop()
        if updated_node.returns is not None and self._result_schema(original_node) is not None:
            assert isinstance(updated_node.returns.annotation, cst.Subscript)
            result = updated_node.returns.annotation.slice[0].slice
            assert isinstance(result, cst.Index)
            return updated_node.with_changes(
                returns=updated_node.returns.with_changes(annotation=result.value)
            )
        return updated_node

    def leave_Decorator(self, original_node: cst.Decorator, updated_node: cst.Decorator) -> cst.Decorator:
        """Remove empty parentheses."""
        made = updated_node.decorator
        method = self.method_of_server(_function(original_node.decorator))
        if (
            method in _BARE
            and isinstance(made, cst.Call)
            and not made.args
            and not self.file.keeps_parentheses
        ):
            return updated_node.with_changes(decorator=made.func)
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite a call of a server's method, and a call of its return value."""
        inner = updated_node.func
        if isinstance(inner, cst.Call) and isinstance(original_node.func, cst.Call):
            method = self.method_of_server(original_node.func.func)
            is_bare = method in _BARE and not inner.args and len(updated_node.args) == 1
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

    def _other(
        self, method: str, original: cst.Call, node: cst.Call, server: cst.BaseExpression
    ) -> cst.Call | None:
        """Return the native form of another method of the server; None if there is none."""
        if method == "get_context" and not node.args:
            return call(self.file.name("current_context"))
        if len(node.args) != 1:
            return None
        if method == "remove_tool":
            part = cst.Attribute(cst.Attribute(server, cst.Name("tools")), cst.Name("remove"))
            return node.with_changes(func=part)
        made, before = node.args[0].value, original.args[0].value
        if not isinstance(made, cst.Call):
            return None
        if method == "add_prompt" and self._ends(before, "Prompt.from_function"):
            return made.with_changes(func=cst.Attribute(server, cst.Name("prompt")))
        return self._resource(before, made, server) if method == "add_resource" else None

    def leave_Await(self, original_node: cst.Await, updated_node: cst.Await) -> cst.BaseExpression:
        """Remove `await` before the list of tools."""
        made = original_node.expression
        if isinstance(made, cst.Call) and self.method_of_server(made.func) == "list_tools":
            assert isinstance(made.func, cst.Attribute)
            if self.file.reads_schemas:
                self.mark("these are tools of mcpkit: use tool.schemas(revision) for both schemas")
            return call("list", cst.Attribute(made.func.value, cst.Name("tools")))
        return updated_node

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Mark access to internals of the server of version 1."""
        name = self.method_of_server(node)
        if name is not None and name.startswith("_") and name in HINTS and name not in self._said:
            self._said.add(name)
            self.mark(f"`{name}`: {HINTS[name]}")

    def _ends(self, node: cst.BaseExpression, name: str) -> bool:
        return isinstance(node, cst.Call) and any(
            each.startswith("mcp.") and each.endswith(f".{name}") for each in self.whole_names(node.func)
        )

    def _registered(self, method: str, original: cst.Call, node: cst.Call) -> cst.Call:
        shape = DECORATORS[method]
        given = bound(node, shape.parameters) or {}
        without: set[str] = set()
        structured = given.get("structured_output")
        added: dict[str, cst.BaseExpression] = {}
        if structured is not None and code(structured.value) not in {"True", "None"}:
            options = self.file.name("ResultOptions")
            added["result"] = call(options, keyword("structured", structured.value))
        methods = given.get("methods")
        if methods is not None and _is_get(methods.value):
            without.add("methods")
        function = self._function[-1] if original in self._is_decorator and self._function else None
        if shape.native == "tool":
            self._check_name(given, function)
        if (
            shape.native == "tool"
            and function is not None
            and (schema := self._result_schema(function)) is not None
        ):
            added["output_schema"] = schema
        if self._must_stay(function, given):
            added["run_in"] = cst.SimpleString('"loop"')
        made = reshaped(node, shape, self.file, without=frozenset(without), added=added)
        if made is None:
            if shape.parameters:
                self.mark(f"the options of {shape.native} have other names than in version 1")
            return node
        assert isinstance(node.func, cst.Attribute)
        return made.with_changes(func=node.func.with_changes(attr=cst.Name(shape.native)))

    def _result_schema(self, function: cst.FunctionDef) -> cst.BaseExpression | None:
        """Return M of a function `-> Annotated[CallToolResult, M]`."""
        returns = function.returns.annotation if function.returns else None
        if isinstance(returns, cst.Subscript) and len(returns.slice) == 2:
            first, second = (each.slice for each in returns.slice)
            if not isinstance(first, cst.Index) or not isinstance(second, cst.Index):
                return None
            if "mcp.types.CallToolResult" in self.imported_names(first.value):
                return second.value
        return None

    def _must_stay(self, function: cst.FunctionDef | None, given: dict[str, cst.Arg]) -> bool:
        """Return True if a function that is not `async` must run in the event loop's thread, as in version 1."""
        names = self.whole_names(function) if function is not None else set[str]()
        if function is None and "fn" in given:
            names = self.whole_names(given["fn"].value)
        return not names.isdisjoint(self.file.in_loop)

    def _check_name(self, given: dict[str, cst.Arg], function: cst.FunctionDef | None) -> None:
        name = text_of(given["name"].value) if "name" in given else None
        if name is None and "name" not in given and function is not None:
            name = function.name.value
        if name is None:
            return
        if not _TOOL_NAME.fullmatch(name):
            self.mark("the name of a tool must be 1 to 128 of A-Z a-z 0-9 _ - . here: rename it")
        where = next(iter(self.whole_names(function)), "").rpartition(".")[0] if function else ""
        if (where, name) in self._names:
            self.mark(
                f"a tool {name!r} exists already: version 1 used the first, mcpkit rejects the second. "
                "Rename or remove one of them"
            )
        self._names[where, name] = 1

    def _resource(
        self, original: cst.BaseExpression, made: cst.Call, server: cst.BaseExpression
    ) -> cst.Call | None:
        """Return `server.resource(uri, ...)(function)` for a resource of version 1 that is an object."""
        given = bound(made, ()) or {}
        if "uri" not in given:
            return None
        if self._ends(original, "FunctionResource") or self._ends(original, "FunctionResource.from_function"):
            function = given.pop("fn", None)
            target = None if function is None else function.value
        elif self._ends(original, "TextResource") and "text" in given and "name" in given:
            target = cst.Lambda(cst.Parameters(), given.pop("text").value)
        elif self._ends(original, "FileResource") and "path" in given and "name" in given:
            given.pop("is_binary", None)
            path = cst.Arg(given.pop("path").value)
            target = cst.Lambda(cst.Parameters(), call(self.file.name("File"), path))
        else:
            return None
        if target is None:
            return None
        uri = cst.Arg(url_text(given.pop("uri").value))
        options = [
            each.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=cst.SimpleWhitespace(""))
            for each in given.values()
        ]
        return call(call(cst.Attribute(server, cst.Name("resource")), uri, *options), target)


def _function(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.func if isinstance(node, cst.Call) else node


def _is_get(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.List) and [text_of(each.value) for each in node.elements] == ["GET"]
