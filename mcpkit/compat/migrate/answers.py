"""Rewriting of code that reads results of elicitation and sampling."""

from __future__ import annotations

import libcst as cst

from .names import ANSWER_CLASSES
from .step import Step


class Answers(Step):
    """Rewrites reads of the results of elicitation and sampling requests."""

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Rewrite reads of the entered values, and of the generated text."""
        name = original_node.attr.value
        if name == "data" and self._holds(original_node.value, self.file.answers):
            return updated_node.with_changes(attr=cst.Name("value"))
        if name == "stopReason" and self._holds(original_node.value, self.file.samples):
            return updated_node.with_changes(attr=cst.Name("stop_reason"))
        said = self._said(original_node.value)
        if said is not None and name == "text":
            return cst.Attribute(said, cst.Name("text"))
        return updated_node

    def leave_Comparison(
        self, original_node: cst.Comparison, updated_node: cst.Comparison
    ) -> cst.BaseExpression:
        """Rewrite a check that the model returned a text."""
        left = original_node.left
        if (
            isinstance(left, cst.Attribute)
            and left.attr.value == "type"
            and len(original_node.comparisons) == 1
        ):
            said = self._said(left.value)
            target = original_node.comparisons[0]
            if said is not None and isinstance(target.operator, cst.Equal):
                return cst.Attribute(said, cst.Name("text"))
        return updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite a check of the result's class to a check of its action."""
        if not (isinstance(original_node.func, cst.Name) and original_node.func.value == "isinstance"):
            return updated_node
        if len(original_node.args) != 2:
            return updated_node
        names = self.imported_names(original_node.args[1].value)
        said = self._said(original_node.args[0].value)
        if said is not None and "mcp.types.TextContent" in names:
            return cst.Attribute(said, cst.Name("text"))
        actions = [ANSWER_CLASSES[name] for name in names if name in ANSWER_CLASSES]
        if not actions:
            return updated_node
        action = cst.Attribute(updated_node.args[0].value, cst.Name("action"))
        target = cst.ComparisonTarget(cst.Equal(), cst.SimpleString(f'"{actions[0]}"'))
        return cst.Comparison(action, [target])

    def leave_MatchClass(self, original_node: cst.MatchClass, updated_node: cst.MatchClass) -> cst.MatchClass:
        """Match results by action instead of class in a `match` statement."""
        actions = [
            ANSWER_CLASSES[name] for name in self.imported_names(original_node.cls) if name in ANSWER_CLASSES
        ]
        if not actions:
            return updated_node
        action = cst.MatchKeywordElement(
            cst.Name("action"), cst.MatchValue(cst.SimpleString(f'"{actions[0]}"'))
        )
        others = [
            each.with_changes(key=cst.Name("value")) if each.key.value == "data" else each
            for each in updated_node.kwds
        ]
        return updated_node.with_changes(
            cls=cst.Name(self.file.name("ElicitationResult")), kwds=[action, *others]
        )

    def leave_BooleanOperation(
        self, original_node: cst.BooleanOperation, updated_node: cst.BooleanOperation
    ) -> cst.BaseExpression:
        """Remove the second check of acceptance: a result with `action == "accept"` has a value."""
        left, right = updated_node.left, updated_node.right
        if (
            isinstance(updated_node.operator, cst.And)
            and isinstance(original_node.right, cst.Attribute)
            and original_node.right.attr.value == "data"
            and self._holds(original_node.right.value, self.file.answers)
            and isinstance(left, cst.Comparison)
            and isinstance(left.left, cst.Attribute)
            and isinstance(right, cst.Attribute)
            and left.left.attr.value == "action"
            and left.left.value.deep_equals(right.value)
        ):
            return right.value
        return updated_node

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.BaseExpression:
        """Write `a or b` for `a if a else b`."""
        if not updated_node.body.deep_equals(updated_node.test) or original_node.body.deep_equals(
            original_node.test
        ):
            return updated_node
        return cst.BooleanOperation(updated_node.body, cst.Or(), updated_node.orelse)

    def _holds(self, node: cst.BaseExpression, names: set[str]) -> bool:
        return not names.isdisjoint(self.whole_names(node))

    def _said(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return `result` if an expression is `result.content` of a sampling result."""
        if isinstance(node, cst.Attribute) and node.attr.value == "content":
            return node.value if self._holds(node.value, self.file.samples) else None
        return None
