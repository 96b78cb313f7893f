"""Rewriting of the uses of `Context`, and of the results of elicitation and sampling."""

from __future__ import annotations

import libcst as cst

from .name_tables import (
    CONTEXT_METHODS,
    CONTEXT_PATHS,
    ELICITATION_ACTIONS,
    HINTS,
    LIST_CHANGES,
    SESSION_METHODS,
    CallForm,
)
from .rewrite_step import USUAL_CONTEXTS, SourceFile, Step, url_text
from .syntax import attribute, call, dotted, on_one_line, owner_of, path_of, string, text_of

_HANDLED_METHODS = {*SESSION_METHODS, *LIST_CHANGES, "list_roots", "send_resource_updated"}
_PATH_HINTS = {
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


class ContextUses(Step):
    """Rewrites calls on a Context, and reads of its attributes."""

    def __init__(self, file: SourceFile) -> None:
        super().__init__(file)
        self._paths: dict[cst.CSTNode, str] = {}
        self._inner: set[cst.CSTNode] = set()  # attributes within a path
        self._request_ids: set[cst.CSTNode] = set()
        self._synchronous: list[cst.CSTNode] = []  # native calls without `await`
        self._list_changes: list[cst.CSTNode] = []  # notifications that mcpkit sends itself

    def visit_Attribute(self, node: cst.Attribute) -> None:
        """Find the native form of a path of attributes, at its end."""
        if node in self._inner:
            return
        chain: list[cst.Attribute] = []
        root: cst.BaseExpression = node
        while isinstance(root, cst.Attribute) and not self._is_root(root, chain):
            chain.insert(0, root)
            root = root.value
        self._inner.update(chain)
        if not chain or not self._is_root(root, chain):
            return
        names = [each.attr.value for each in chain]
        if names[:2] == ["request_context", "session"]:
            names, chain = names[1:], chain[1:]
        for length in range(len(names), 0, -1):
            path = ".".join(names[:length])
            if path in CONTEXT_PATHS:
                self._paths[chain[length - 1]] = f"{path_of(root)}.{CONTEXT_PATHS[path]}"
                return
        if names[0] == "request_id":
            self._request_ids.add(chain[0])
        if names[0] == "session" and len(names) > 1 and names[1] in _HANDLED_METHODS:
            return
        for path, hint in _PATH_HINTS.items():
            if f"{'.'.join(names)}.".startswith(f"{path}."):
                self.mark(hint)
                return

    def _is_root(self, node: cst.BaseExpression, chain: list[cst.Attribute]) -> bool:
        """Return True for a known Context, or `self.ctx` with access to the state of the lifespan."""
        path = [each.attr.value for each in chain[:2]]
        is_usual = (path_of(node) or "").rpartition(".")[2].lstrip("_") in USUAL_CONTEXTS
        return self.is_context(node) or (is_usual and path == ["request_context", "lifespan_context"])

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Insert the native path."""
        native = self._paths.get(original_node)
        if native is not None:
            return dotted(native)
        if original_node in self._request_ids:  # in version 1 it is a text, whatever the client has sent
            return call("str", updated_node)
        if original_node.attr.value == "client_id" and self.is_context(original_node.value):
            return call(attribute(updated_node.value, "meta.get"), string("client_id"))
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite a call on the Context, or on its session."""
        match original_node:
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name(value=method))):
                if self.is_context(owner):
                    form = CONTEXT_METHODS.get(method)
                    return updated_node if form is None else self._called(owner, form, updated_node)
                return self._called_on_session(method, owner, updated_node)
            # `getattr(ctx, "request_id", None)`: every Context has one
            case cst.Call(func=cst.Name(value="getattr"), args=[context, name, *_]) if (
                self.is_context(context.value) and text_of(name.value) == "request_id"
            ):
                return call("str", attribute(updated_node.args[0].value, "request_id"))
            case _:
                return updated_node

    def _called_on_session(
        self, method: str, session: cst.BaseExpression, node: cst.Call
    ) -> cst.BaseExpression:
        """Rewrite a call on `ctx.session` or `ctx.request_context.session`."""
        outer = owner_of(session, "session")
        context = outer and (owner_of(outer, "request_context") or outer)
        if context is None or not self.is_context(context):
            return node
        if method in SESSION_METHODS:
            return self._called(context, SESSION_METHODS[method], node)
        if method == "list_roots":
            return call(attribute(context, "list_roots"))
        if method in LIST_CHANGES:
            self._list_changes.append(node)
        if method == "send_resource_updated" and len(node.args) == 1:
            uri = url_text(node.args[0].value)
            node = call(attribute(context, "server.notify_resource_updated"), uri)
            self._synchronous.append(node)
        return node

    def _called(self, context: cst.BaseExpression, form: CallForm, node: cst.Call) -> cst.BaseExpression:
        """Return a call of a native method of the Context."""
        made = self.native_call(node, form)
        if made is None:
            self.mark_arguments(form.native)
            made = node
        if not (self.functions and self.functions[-1].is_async):
            context = attribute(context, "sync")
        if form.native == "sample":
            made = self._without_messages(made)
        return made.with_changes(func=attribute(context, form.native))

    def _without_messages(self, node: cst.Call) -> cst.Call:
        """Return `sample("...")` for `sample([user("...")])`."""
        match node.args:
            case [
                cst.Arg(
                    keyword=None,
                    value=cst.List(elements=[cst.Element(value=cst.Call(func=function, args=[text, *_]))]),
                ) as first,
                *others,
            ] if path_of(function) == self.file.name("user") and not isinstance(text.value, cst.Call):
                return on_one_line(node.with_changes(args=[first.with_changes(value=text.value), *others]))
            case _:
                return node

    def leave_Await(self, original_node: cst.Await, updated_node: cst.Await) -> cst.BaseExpression:
        """Remove `await` before native calls that are not async."""
        made = updated_node.expression
        if made in self._list_changes:
            self._list_changes.append(updated_node)
        return made if made in self._synchronous else updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        """Remove notifications that mcpkit sends itself."""
        only = updated_node.body[0]
        is_list_change = isinstance(only, cst.Expr) and only.value in self._list_changes
        return self.drop(updated_node) if is_list_change else updated_node


class ClientResults(Step):
    """Rewrites reads of the results of elicitation and sampling requests."""

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Rewrite reads of the entered values, and of the generated text."""
        name = original_node.attr.value
        if name == "data" and self._is_in(original_node.value, self.file.elicitations):
            return updated_node.with_changes(attr=cst.Name("value"))
        if name == "stopReason" and self._is_in(original_node.value, self.file.samples):
            return updated_node.with_changes(attr=cst.Name("stop_reason"))
        sample = self._sample(original_node.value)
        return updated_node if sample is None or name != "text" else attribute(sample, "text")

    def leave_Comparison(
        self, original_node: cst.Comparison, updated_node: cst.Comparison
    ) -> cst.BaseExpression:
        """Rewrite a check that the model returned a text."""
        match original_node:
            case cst.Comparison(
                left=cst.Attribute(value=content, attr=cst.Name(value="type")),
                comparisons=[cst.ComparisonTarget(operator=cst.Equal())],
            ) if sample := self._sample(content):
                return attribute(sample, "text")
            case _:
                return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite a check of the result's class to a check of its action."""
        match original_node:
            case cst.Call(func=cst.Name(value="isinstance"), args=[value, classes]):
                names = self.imported_names(classes.value)
            case _:
                return updated_node
        sample = self._sample(value.value)
        if sample is not None and "mcp.types.TextContent" in names:
            return attribute(sample, "text")
        actions = [ELICITATION_ACTIONS[name] for name in names if name in ELICITATION_ACTIONS]
        if not actions:
            return updated_node
        target = cst.ComparisonTarget(cst.Equal(), string(actions[0]))
        return cst.Comparison(attribute(updated_node.args[0].value, "action"), [target])

    def leave_MatchClass(self, original_node: cst.MatchClass, updated_node: cst.MatchClass) -> cst.MatchClass:
        """Match results by action instead of class in a `match` statement."""
        names = self.imported_names(original_node.cls)
        actions = [ELICITATION_ACTIONS[name] for name in names if name in ELICITATION_ACTIONS]
        if not actions:
            return updated_node
        action = cst.MatchKeywordElement(cst.Name("action"), cst.MatchValue(string(actions[0])))
        others = [
            each.with_changes(key=cst.Name("value")) if each.key.value == "data" else each
            for each in updated_node.kwds
        ]
        result = cst.Name(self.file.name("ElicitationResult"))
        return updated_node.with_changes(cls=result, kwds=[action, *others])

    def leave_BooleanOperation(
        self, original_node: cst.BooleanOperation, updated_node: cst.BooleanOperation
    ) -> cst.BaseExpression:
        """Remove the second check of acceptance: a result with `action == "accept"` has a value."""
        match updated_node:
            case cst.BooleanOperation(
                operator=cst.And(),
                left=cst.Comparison(left=cst.Attribute(value=checked, attr=cst.Name(value="action"))),
                right=cst.Attribute(value=result),
            ) if checked.deep_equals(result):
                before = owner_of(original_node.right, "data")
                if before is not None and self._is_in(before, self.file.elicitations):
                    return result
            case _:
                pass
        return updated_node

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.BaseExpression:
        """Write `a or b` for `a if a else b`, where this step has made both equal."""
        is_equal = updated_node.body.deep_equals(updated_node.test)
        if not is_equal or original_node.body.deep_equals(original_node.test):
            return updated_node
        return cst.BooleanOperation(updated_node.body, cst.Or(), updated_node.orelse)

    def _is_in(self, node: cst.BaseExpression, names: set[str]) -> bool:
        return not names.isdisjoint(self.whole_names(node))

    def _sample(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return `result` if an expression is `result.content` of a sampling result."""
        result = owner_of(node, "content")
        return None if result is None or not self._is_in(result, self.file.samples) else result
