"""Tools of a server, as functions of the client's."""

from __future__ import annotations

import keyword
from collections.abc import Awaitable, Callable
from inspect import Parameter, Signature
from typing import Any, Final

from ...common.errors import ToolError
from ...protocol.jsonrpc import is_array, is_object
from ...protocol.types import Json
from ..link.results import CallResult

_TYPES: Final[dict[object, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": None,
}


_MOST_BRANCHES: Final = 10
"""Of how many types a hint is made; more are shown as any."""


class _SignatureOfTool:
    """Has a tool tell what it takes, and its class not."""

    def __get__(self, tool: RemoteTool | None, owner: type[RemoteTool]) -> Signature:
        if tool is None:
            raise AttributeError("__signature__")
        return _signature(tool.schema)


class RemoteTool:
    """A tool of a server, to be called like a function; `Client.tools` makes them.

        forecast = (await client.tools())["forecast"]
        day = await forecast(city="Oslo")

    Its signature and docstring, which editors and notebooks show, are made of what the server says.

    Attributes:
        name: Its name.
        title: What people read; its name where the server gives none.
        description: What it does, for models; empty where the server says nothing.
        schema: The JSON Schema of its arguments.
        output_schema: That of its structured content, or None.
        annotations: Hints on what it does, such as `readOnlyHint`; a server that is not trusted may say anything.
        definition: All of it, as the server lists it.
    """

    def __init__(self, call: Callable[[str, Json], Awaitable[CallResult]], definition: Json) -> None:
        annotations = definition.get("annotations")
        self.annotations: Json = annotations if is_object(annotations) else {}
        self.name = str(definition.get("name"))
        self.title = str(definition.get("title") or self.annotations.get("title") or self.name)
        self.description = str(definition.get("description") or "")
        schema, output = definition.get("inputSchema"), definition.get("outputSchema")
        self.schema: Json = schema if is_object(schema) else {"type": "object"}
        self.output_schema: Json | None = output if is_object(output) else None
        self.definition = definition
        self._call = call
        self.__doc__ = _doc(self)

    async def __call__(self, /, **arguments: Any) -> Any:
        """Call it, and return what it answers.

        Args:
            arguments: JSON values by name.

        Returns:
            Its structured content; else its text; else its content blocks, where there are others than text. A result
            that the server has wrapped, as `{"result": ...}`, is unwrapped. `Client.call` has more to say.

        Raises:
            ToolError: It could not do what it was asked.
            InvalidResultError: The result does not fit its `output_schema`.
            ProtocolError: The server answered with an error.
            TimeoutError: The time is over; the server has been told.
            OutcomeUnknownError: It may or may not have been done.
            ConnectionError: The server cannot be reached, or its answer did not come back.
        """
        result = await self._call(self.name, arguments)
        if result.is_error:
            raise ToolError(result.error_text)
        return self._value(result)

    def _value(self, result: CallResult) -> Any:
        if "structuredContent" in result.raw and (
            result.structured_content is not None or self.output_schema or result.is_structured_only
        ):
            structured = result.structured_content
            if is_object(structured) and structured.keys() == {"result"} and self._wraps():
                return structured["result"]
            return structured
        if all(block.get("type") == "text" for block in result.content):
            return result.text if result.content else None
        return result.content

    def _wraps(self) -> bool:
        """Say whether what it returns is no object by itself."""
        schema = self.output_schema or {}
        properties: object = schema.get("properties")
        return (
            is_object(properties) and list(properties) == ["result"] and schema.get("required") == ["result"]
        )

    __signature__ = _SignatureOfTool()

    def __repr__(self) -> str:
        """Show it as it is called."""
        return f"<tool {self.name}{_signature(self.schema)}>"


def _properties(schema: Json) -> Json:
    found: object = schema.get("properties")
    return found if is_object(found) else {}


def _signature(schema: Json) -> Signature:
    """Return what takes the arguments of a schema; `...` stands for those that may be left out and have no default."""
    properties = _properties(schema)
    required: object = schema.get("required")
    needed = required if is_array(required) else []
    named = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if name in needed else _default(inner),
            annotation=_hint(inner),
        )
        for name, inner in properties.items()
        if name.isidentifier() and not keyword.iskeyword(name)
    ]
    if len(named) < len(properties) or schema.get("additionalProperties") is not False:
        rest = "arguments"
        while rest in properties:
            rest += "_"
        named.append(Parameter(rest, Parameter.VAR_KEYWORD))
    return Signature(named)


def _doc(tool: RemoteTool) -> str:
    lines = [f"    {name}: {_described(schema)}" for name, schema in _properties(tool.schema).items()]
    return "\n".join([tool.description or tool.title, *(["", "Args:", *lines] if lines else [])])


class _LeftOut:
    """What stands for an argument that may be left out."""

    def __repr__(self) -> str:
        return "..."


_LEFT_OUT: Final = _LeftOut()


def _default(schema: object) -> Any:
    return schema["default"] if is_object(schema) and "default" in schema else _LEFT_OUT


def _described(schema: object) -> str:
    text = schema.get("description") or schema.get("title") if is_object(schema) else None
    return " ".join(str(text or "").split()) or str(getattr(_hint(schema), "__name__", _hint(schema)))


def _hint(schema: object) -> Any:
    """Return the type hint of an argument; `Any` where Python has no short word for it."""
    if not is_object(schema):
        return Any
    kinds: object = schema.get("type")
    branches: object = schema.get("anyOf") or schema.get("oneOf") or kinds
    if is_array(branches):
        each_hint = (_hint(each if is_object(each) else {"type": each}) for each in branches[:_MOST_BRANCHES])
        hints = list(dict.fromkeys(each_hint))
        if Any in hints or not hints or len(branches) > _MOST_BRANCHES:
            return Any
        first, *others = hints
        for hint in others:
            first = first | hint
        return first
    return _TYPES.get(kinds, Any) if isinstance(kinds, str) else Any
