"""Rewriting of content blocks, results and messages."""

from __future__ import annotations

import libcst as cst

from .layout import with_arguments
from .names import CONTENT, FILES, RESOURCE_CONTENTS, ROLE_MESSAGES, SAID_MESSAGES
from .nodes import bound, call, keyword, text_of
from .reshaping import reshaped
from .step import Step

_CONVERSIONS = {"to_image_content", "to_audio_content"}


class Content(Step):
    """Rewrites return values of functions, messages of prompts, and sampling messages."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        """Rewrite content, results and messages."""
        function = updated_node.func
        if isinstance(function, cst.Attribute) and function.attr.value in _CONVERSIONS:
            return function.value
        made: cst.BaseExpression = updated_node
        for name in self.imported_names(original_node.func):
            if name in CONTENT:
                made = self._content(name, updated_node)
            elif name in FILES:
                made = self._file(FILES[name], updated_node)
            elif name in SAID_MESSAGES:
                made = self._said(SAID_MESSAGES[name], updated_node)
            elif name in ROLE_MESSAGES:
                made = self._with_role(updated_node)
            elif name == "mcp.types.EmbeddedResource":
                made = self._embedded(original_node, updated_node)
        return made

    def _content(self, name: str, node: cst.Call) -> cst.BaseExpression:
        shape = CONTENT[name]
        given = bound(node, shape.parameters) or {}
        without = {each for each in ("isError",) if each in given and _is_false(given[each].value)}
        if name.endswith(".CallToolResult") and "content" in given:
            content = given["content"]
            alone = content.with_changes(value=self.plain_item(content.value))
            node = node.with_changes(args=[alone if each is content else each for each in node.args])
        made = reshaped(node, shape, self.file, without=frozenset(without))
        if made is None:
            self.mark(f"the arguments of {shape.native} have other names than in version 1")
            return node
        return made.with_changes(func=cst.Name(self.file.name(shape.native)))

    def _file(self, kind: str, node: cst.Call) -> cst.Call:
        arguments: list[cst.Arg] = []
        for index, each in enumerate(node.args):
            is_format = each.keyword.value == "format" if each.keyword else index == 2
            if not is_format:
                arguments.append(keyword("data", each.value) if not each.keyword and index == 1 else each)
                continue
            text = text_of(each.value)
            if text is not None:
                value: cst.BaseExpression = cst.SimpleString(f'"{kind}/{text}"')
            else:
                inside = cst.FormattedStringExpression(each.value)
                value = cst.FormattedString([cst.FormattedStringText(f"{kind}/"), inside], 'f"', '"')
            arguments.append(each.with_changes(keyword=cst.Name("mime_type"), value=value))
        return with_arguments(node, arguments)

    def _said(self, who: str, node: cst.Call) -> cst.Call:
        given = bound(node, ("content",)) or {}
        if set(given) != {"content"}:
            return node
        content = self.plain(given["content"].value)
        return with_arguments(node, [cst.Arg(content)]).with_changes(func=cst.Name(self.file.name(who)))

    def _with_role(self, node: cst.Call) -> cst.Call:
        given = bound(node, ("role", "content")) or {}
        if set(given) != {"role", "content"}:
            return node
        role, content = given["role"].value, self.plain(given["content"].value)
        who = text_of(role)
        if who in {"user", "assistant"}:
            return with_arguments(node.with_changes(func=cst.Name(self.file.name(who))), [cst.Arg(content)])
        return call(self.file.name("Message"), role, content)

    def _embedded(self, original: cst.Call, node: cst.Call) -> cst.Call:
        given = bound(node, ("type", "resource", "annotations")) or {}
        inner = given.get("resource")
        kind = None
        for each in original.args:
            if each.keyword and each.keyword.value == "resource" and isinstance(each.value, cst.Call):
                kind = next(iter(self.imported_names(each.value.func) & RESOURCE_CONTENTS.keys()), None)
        if inner is None or kind is None or not isinstance(inner.value, cst.Call):
            self.mark("pass uri and text= or blob= (bytes) to EmbeddedResource itself")
            return node
        added = {name: given[name].value for name in ("annotations",) if name in given}
        made = reshaped(inner.value, RESOURCE_CONTENTS[kind], self.file, added=added)
        if made is None:
            return node
        return with_arguments(node, made.args).with_changes(func=cst.Name(self.file.name("EmbeddedResource")))

    def plain(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return the text in `Text(text)`, which is content as it is."""
        if (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Name)
            and node.func.value == self.file.name("Text")
            and len(node.args) == 1
        ):
            return node.args[0].value
        return node

    def plain_item(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return the text in `[Text(text)]`."""
        if isinstance(node, cst.List) and len(node.elements) == 1:
            item = node.elements[0].value
            text = self.plain(item)
            return node if text is item else text
        return node


def _is_false(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "False"
