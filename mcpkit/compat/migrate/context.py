"""Rewriting of the uses of `Context`."""

from __future__ import annotations

import libcst as cst

from .facts import USUAL_CONTEXTS
from .file import File
from .layout import on_one_line
from .names import ANNOUNCEMENTS, CONTEXT_METHODS, CONTEXT_PATHS, HINTS, SESSION_METHODS
from .nodes import call, dotted, path_of, text_of
from .reshaping import reshaped, url_text
from .shapes import Shape
from .step import Step

_UNMAPPED = {
    "session.send_elicit_complete": "use done= of ctx.elicit_url to send the completion",
    "session.check_client_capability": "use ctx.client.supports(name)",
    "session.client_params": "use ctx.client",
    "session.send_progress_notification": "use ctx.report_progress(progress, total, message)",
    "request_context.request": "use ctx.headers; mcpkit does not provide other parts of the HTTP request",
    "read_resource": HINTS["read_resource"],
    "session": "mcpkit has no session object: use the methods of the Context",
    "request_context": "use the attributes of mcpkit's Context",
    "close_standalone_sse_stream": "mcpkit has no equivalent",
}


class ContextUse(Step):
    """Rewrites calls on a Context, and reads of its attributes."""

    def __init__(self, file: File) -> None:
        super().__init__(file)
        self._paths: dict[cst.CSTNode, str] = {}
        self._inner: set[cst.CSTNode] = set()
        self._ids: set[cst.CSTNode] = set()
        self._not_awaited: list[cst.CSTNode] = []
        self._silent: list[cst.CSTNode] = []

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Find the native form of a path of attributes, at its end."""
        if node in self._inner:
            return
        chain: list[cst.Attribute] = []
        root: cst.BaseExpression = node
        while isinstance(root, cst.Attribute) and not self._is_context(root, chain):
            chain.insert(0, root)
            root = root.value
        self._inner.update(chain)
        if not chain or not self._is_context(root, chain):
            return
        names = [each.attr.value for each in chain]
        own = [*chain]
        if names[:2] == ["request_context", "session"]:
            names, own = names[1:], own[1:]
        for length in range(len(names), 0, -1):
            path = ".".join(names[:length])
            if path in CONTEXT_PATHS:
                self._paths[own[length - 1]] = f"{path_of(root)}.{CONTEXT_PATHS[path]}"
                return
        if names[0] == "request_id":
            self._ids.add(own[0])
        if names[0] == "session" and len(names) > 1 and self._is_known(names[1]):
            return
        for path, hint in _UNMAPPED.items():
            if f"{'.'.join(names)}.".startswith(f"{path}."):
                self.mark(hint)
                return

    def _is_context(self, node: cst.BaseExpression, chain: list[cst.Attribute]) -> bool:
        """Return True for a known Context, or `self.ctx` with access to the state of the lifespan."""
        asked = [each.attr.value for each in chain[:2]]
        is_usual = (path_of(node) or "").rpartition(".")[2].lstrip("_") in USUAL_CONTEXTS
        return self.is_context(node) or (is_usual and asked == ["request_context", "lifespan_context"])

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Insert the native path."""
        native = self._paths.get(original_node)
        if native is not None:
            return dotted(native)
        if original_node in self._ids:  # of version 1 it is a text, whatever the client has sent
            return call("str", updated_node)
        if original_node.attr.value == "client_id" and self.is_context(original_node.value):
            return call(
                cst.Attribute(cst.Attribute(updated_node.value, cst.Name("meta")), cst.Name("get")),
                cst.SimpleString('"client_id"'),
            )
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite a call on the Context, or on its session."""
        function = original_node.func
        if not isinstance(function, cst.Attribute):
            return self._got(original_node, updated_node)
        method = function.attr.value
        if self.is_context(function.value):
            shape = CONTEXT_METHODS.get(method)
            return updated_node if shape is None else self._called(function.value, shape, updated_node)
        context = self._context_of_session(function.value)
        if context is None:
            return updated_node
        if method in SESSION_METHODS:
            return self._called(context, SESSION_METHODS[method], updated_node)
        return self._of_session(method, context, updated_node)

    def _got(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        """Rewrite `getattr(ctx, "request_id", None)`, as every Context has one."""
        if path_of(original.func) != "getattr" or len(original.args) < 2:
            return updated
        if not self.is_context(original.args[0].value) or text_of(original.args[1].value) != "request_id":
            return updated
        return call("str", cst.Attribute(updated.args[0].value, cst.Name("request_id")))

    def _of_session(self, method: str, context: cst.BaseExpression, node: cst.Call) -> cst.Call:
        """Rewrite calls on the session that have another native form."""
        if method == "list_roots":
            return call(cst.Attribute(context, cst.Name("list_roots")))
        if method in ANNOUNCEMENTS:
            self._silent.append(node)
        if method == "send_resource_updated" and len(node.args) == 1:
            server = cst.Attribute(context, cst.Name("server"))
            updated = cst.Attribute(server, cst.Name("notify_resource_updated"))
            node = call(updated, url_text(node.args[0].value))
            self._not_awaited.append(node)
        return node

    def leave_Await(self, original_node: cst.Await, updated_node: cst.Await) -> cst.BaseExpression:
        """Remove `await` before native calls that are not async."""
        made = updated_node.expression
        if any(made is each for each in self._silent):
            self._silent.append(updated_node)
        return made if any(made is each for each in self._not_awaited) else updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        """Remove notifications that mcpkit sends itself."""
        only = updated_node.body[0]
        if isinstance(only, cst.Expr) and any(only.value is each for each in self._silent):
            return self.drop(updated_node)
        return updated_node

    def _is_known(self, method: str) -> bool:
        return (
            method in SESSION_METHODS
            or method in ANNOUNCEMENTS
            or method in {"list_roots", "send_resource_updated"}
        )

    def _context_of_session(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        if not isinstance(node, cst.Attribute) or node.attr.value != "session":
            return None
        owner = node.value
        if isinstance(owner, cst.Attribute) and owner.attr.value == "request_context":
            owner = owner.value
        return owner if self.is_context(owner) else None

    def _called(self, context: cst.BaseExpression, shape: Shape, node: cst.Call) -> cst.BaseExpression:
        made = reshaped(node, shape, self.file)
        if made is None:
            self.mark(f"the arguments of {shape.native} have other names than in version 1")
            made = node
        if not self.is_in_coroutine:
            context = cst.Attribute(context, cst.Name("sync"))
        if shape.native == "sample":
            made = self._simple_messages(made)
        *parts, name = shape.native.split(".")
        for part in parts:
            context = cst.Attribute(context, cst.Name(part))
        return made.with_changes(func=cst.Attribute(context, cst.Name(name)))

    def _simple_messages(self, node: cst.Call) -> cst.Call:
        """Return `sample("...")` for `sample([user("...")])`."""
        first = node.args[0] if node.args else None
        if first is None or first.keyword or not isinstance(first.value, cst.List):
            return node
        items = first.value.elements
        item = items[0].value if len(items) == 1 else None
        if (
            isinstance(item, cst.Call)
            and path_of(item.func) == self.file.name("user")
            and not (isinstance(item.args[0].value, cst.Call))
        ):
            shorter = [first.with_changes(value=item.args[0].value), *node.args[1:]]
            return on_one_line(node.with_changes(args=shorter))
        return node
