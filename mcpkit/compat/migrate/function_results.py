"""Rewriting of what functions return and raise: content blocks, results, messages, and errors for clients."""

from __future__ import annotations

import libcst as cst

from .name_tables import CONTENT, MEDIA_FILES, RESOURCE_CONTENTS, ROLE_MESSAGES, USER_MESSAGES
from .rewrite_step import Function, SourceFile, Step
from .syntax import bound, call, is_name, keyword, names_in, path_of, text_of, with_arguments

_CONVERSIONS = {"to_image_content", "to_audio_content"}
_LISTS = {"list", "List", "Sequence", "typing.List", "typing.Sequence"}

_ERROR_CLASSES = {
    "tool": "ToolError",
    "add_tool": "ToolError",
    "resource": "ResourceError",
    "prompt": "PromptError",
}
_BUILTIN_ERRORS = {
    *("Exception", "ValueError", "RuntimeError", "TypeError", "LookupError", "NotImplementedError"),
    *("OSError", "IOError", "FileNotFoundError", "PermissionError", "TimeoutError", "ConnectionError"),
}
_MCP_ERROR = {"mcp.shared.exceptions.McpError", "mcp.McpError"}
_ERROR_DATA = {"mcp.types.ErrorData", "mcp.ErrorData"}
_CODES = {
    "PARSE_ERROR": -32700,
    "INVALID_REQUEST": -32600,
    "METHOD_NOT_FOUND": -32601,
    "INVALID_PARAMS": -32602,
    "INTERNAL_ERROR": -32603,
}

# Content


class Content(Step):
    """Rewrites content, results of tools, messages of prompts, and sampling messages."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite content, results and messages."""
        function = updated_node.func
        if isinstance(function, cst.Attribute) and function.attr.value in _CONVERSIONS:
            return function.value
        made: cst.BaseExpression = updated_node
        for name in self.imported_names(original_node.func):
            if name in CONTENT:
                made = self._content(name, updated_node)
            elif name in MEDIA_FILES:
                made = _media(MEDIA_FILES[name], updated_node)
            elif name in USER_MESSAGES or name in ROLE_MESSAGES:
                made = self._message(USER_MESSAGES.get(name), updated_node)
            elif name == "mcp.types.EmbeddedResource":
                made = self._embedded(original_node, updated_node)
        return made

    def _content(self, name: str, node: cst.Call) -> cst.BaseExpression:
        form = CONTENT[name]
        arguments = bound(node, form.parameters) or {}
        is_error = arguments.get("isError")
        content = arguments.get("content") if name.endswith(".CallToolResult") else None
        if content is not None:
            text = content.with_changes(value=self.without_list(content.value))
            node = node.with_changes(args=[text if each is content else each for each in node.args])
        is_false = is_error is not None and is_name(is_error.value, "False")
        made = self.native_call(node, form, without={"isError"} if is_false else ())
        if made is None:
            self.mark_arguments(form.native)
            return node
        return made.with_changes(func=cst.Name(self.file.name(form.native)))

    def _message(self, role: str | None, node: cst.Call) -> cst.Call:
        """Return `user(content)`, `assistant(content)` or `Message(role, content)`; `role` is that of the class."""
        parameters = ("content",) if role else ("role", "content")
        arguments = bound(node, parameters) or {}
        if arguments.keys() != set(parameters):
            return node
        content = self._without_text(arguments["content"].value)
        function = role or text_of(arguments["role"].value) or ""
        if function not in {"user", "assistant"}:
            return call(self.file.name("Message"), arguments["role"].value, content)
        return with_arguments(node, [cst.Arg(content)]).with_changes(func=cst.Name(self.file.name(function)))

    def _embedded(self, original: cst.Call, node: cst.Call) -> cst.Call:
        arguments = bound(node, ("type", "resource", "annotations")) or {}
        inner = arguments["resource"].value if "resource" in arguments else None
        kind = None
        for each in original.args:
            if each.keyword and each.keyword.value == "resource" and isinstance(each.value, cst.Call):
                kind = next(iter(self.imported_names(each.value.func) & RESOURCE_CONTENTS.keys()), None)
        if kind is None or not isinstance(inner, cst.Call):
            self.mark("pass uri and text= or blob= (bytes) to EmbeddedResource itself")
            return node
        added = {name: arguments[name].value for name in ("annotations",) if name in arguments}
        made = self.native_call(inner, RESOURCE_CONTENTS[kind], added=added)
        if made is None:
            return node
        return with_arguments(node, made.args).with_changes(func=cst.Name(self.file.name("EmbeddedResource")))

    def _without_text(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return the text in `Text(text)`, which is content as it is."""
        match node:
            case cst.Call(func=cst.Name(value=name), args=[only]) if name == self.file.name("Text"):
                return only.value
            case _:
                return node

    def without_list(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return the text in `[Text(text)]`."""
        if isinstance(node, cst.List) and len(node.elements) == 1:
            item = node.elements[0].value
            text = self._without_text(item)
            return node if text is item else text
        return node


def _media(kind: str, node: cst.Call) -> cst.Call:
    """Return a call of `Image` or `Audio` with a MIME type in place of `format=`."""
    arguments: list[cst.Arg] = []
    for index, each in enumerate(node.args):
        is_format = each.keyword.value == "format" if each.keyword else index == 2
        if is_format:
            text = text_of(each.value)
            value: cst.BaseExpression = cst.SimpleString(f'"{kind}/{text}"')
            if text is None:
                inside = cst.FormattedStringExpression(each.value)
                value = cst.FormattedString([cst.FormattedStringText(f"{kind}/"), inside], 'f"', '"')
            arguments.append(each.with_changes(keyword=cst.Name("mime_type"), value=value))
        elif index == 1 and not each.keyword:
            arguments.append(keyword("data", each.value))
        else:
            arguments.append(each)
    return with_arguments(node, arguments)


class TextResults(Content):
    """Rewrites a tool with `-> list[TextContent]` and `return [Text(...)]` to `-> str` and `return ...`."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Return the call unchanged: it was rewritten before."""
        return updated_node

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        """Rewrite a tool."""
        if not any(self.file.registered.get(name) == "tool" for name in self.whole_names(original_node)):
            return updated_node
        returned = original_node.returns
        annotation = returned.annotation if returned else None
        if returned is None or not isinstance(annotation, cst.Subscript):
            return updated_node
        names = set[str]().union(*map(self.whole_names, names_in(annotation)))
        if path_of(annotation.value) not in _LISTS or "mcp.types.TextContent" not in names:
            return updated_node
        unwrap = _Unwrap(self)
        body = updated_node.body.visit(unwrap)
        if not unwrap.count or unwrap.has_others:
            return updated_node
        return updated_node.with_changes(returns=returned.with_changes(annotation=cst.Name("str")), body=body)


class _Unwrap(cst.CSTTransformer):
    """Rewrites the `return` statements of a function, without those of inner functions."""

    def __init__(self, content: Content) -> None:
        super().__init__()
        self.count = 0
        self.has_others = False  # whether one does not return a list of one text
        self._content = content

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return False

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        value = updated_node.value
        text = value and self._content.without_list(value)
        self.count += 1
        self.has_others |= text is value
        return updated_node.with_changes(value=text)


# Errors


class Errors(Step):
    """Rewrites errors with texts for clients, as mcpkit only sends texts of its own error classes.

    Tools raise ToolError, and other functions their own class.
    """

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self._marked: set[str] = set()  # functions
        self._called: set[str] = set()
        self._is_status_marked = False

    def visit_Module(self, node: cst.Module) -> None:
        """Find functions that other functions of the file call without catching errors."""
        calls = _UncaughtCalls(self)
        node.visit(calls)
        self._called = calls.found

    def visit_Try_body(self, node: cst.Try) -> None:
        """Enter a `try` block."""
        if self.functions and node.handlers:
            self.functions[-1].tries += 1

    def leave_Try_body(self, node: cst.Try) -> None:
        """Leave it."""
        if self.functions and node.handlers:
            self.functions[-1].tries -= 1

    def _error_class(self, function: Function) -> str | None:
        """Return the native error of a registered function; None for other functions."""
        kinds = (self.file.registered.get(name) for name in function.names)
        return next((_ERROR_CLASSES[kind] for kind in kinds if kind in _ERROR_CLASSES), None)

    def visit_Raise(self, node: cst.Raise) -> None:
        """Mark a text that the client of a tool no longer gets."""
        function = self.functions[-1] if self.functions else None
        if function is None or self._error_class(function) or function.tries or not _has_text(node):
            return
        called = function.names & self._called
        assert isinstance(node.exc, cst.Call)
        if called and path_of(node.exc.func) in _BUILTIN_ERRORS and not called & self._marked:
            self._marked |= called
            self.mark(
                'the model only receives "Internal error (ref ...)" for this: '
                "raise ToolError to send it the text"
            )

    def visit_Call(self, node: cst.Call) -> None:
        """Mark, once, uncaught errors of HTTP clients."""
        is_status = isinstance(node.func, cst.Attribute) and node.func.attr.value == "raise_for_status"
        function = self.functions[-1] if self.functions else None
        if not is_status or self._is_status_marked or function is None or function.tries:
            return
        if self._error_class(function) or function.names & self._called:
            self._is_status_marked = True
            self.mark(
                'the model only receives "Internal error (ref ...)" for such an error: raise ToolError instead, '
                "here or for all tools in a function with @server.on_error"
            )

    def leave_Raise(self, original_node: cst.Raise, updated_node: cst.Raise) -> cst.Raise:
        """Raise an error with a text that mcpkit sends."""
        raised, original = updated_node.exc, original_node.exc
        if not isinstance(raised, cst.Call) or not isinstance(original, cst.Call):
            return updated_node
        function = self.functions[-1] if self.functions else None
        kind = self._error_class(function) if function else None
        if self.imported_names(original.func) & _MCP_ERROR:
            return updated_node.with_changes(exc=self._protocol_error(original, raised, kind))
        if (
            function is None
            or kind is None
            or function.tries
            or function.names & self._called
            or not _has_text(updated_node)
            or path_of(raised.func) not in _BUILTIN_ERRORS
        ):
            return updated_node
        return updated_node.with_changes(exc=raised.with_changes(func=cst.Name(self.file.name(kind))))

    def _protocol_error(self, original: cst.Call, raised: cst.Call, kind: str | None) -> cst.BaseExpression:
        """Return the native error for `McpError(ErrorData(...))`."""
        match original, raised:
            case cst.Call(args=[cst.Arg(value=cst.Call(func=data_class))]), cst.Call(
                args=[cst.Arg(value=cst.Call() as data)]
            ) if self.imported_names(data_class) & _ERROR_DATA:
                arguments = bound(data, ()) or {}
            case _:
                return raised
        if not {"code", "message"} <= arguments.keys():
            return raised
        if kind == "ToolError" or (kind is None and "tool" in self.file.registered.values()):
            return call(self.file.name("ToolError"), arguments["message"].value)
        code = arguments["code"].value
        known = _CODES.get((path_of(code) or "").rpartition(".")[2])
        if known is not None:
            code = cst.UnaryOperation(cst.Minus(), cst.Integer(str(-known)))
        details = [arguments["data"].value] if "data" in arguments else []
        return call(self.file.name("ProtocolError"), code, arguments["message"].value, *details)


class _UncaughtCalls(cst.CSTVisitor):
    """Collects the qualified names of functions that are called outside of `try` blocks."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.found: set[str] = set()
        self._step = step
        self._tries = 0

    def visit_Try_body(self, node: cst.Try) -> None:
        self._tries += bool(node.handlers)

    def leave_Try_body(self, node: cst.Try) -> None:
        self._tries -= bool(node.handlers)

    def visit_Call(self, node: cst.Call) -> None:
        if not self._tries:
            self.found |= self._step.whole_names(node.func)


def _has_text(node: cst.Raise) -> bool:
    """Return True for `raise Error(text)`."""
    match node.exc:
        case cst.Call(args=[cst.Arg(keyword=None, star="")]):
            return True
        case _:
            return False
