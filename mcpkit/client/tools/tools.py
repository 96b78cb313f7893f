"""Tools of a server as Python callables."""

from __future__ import annotations

import keyword
from collections.abc import Awaitable, Callable, Mapping
from inspect import Parameter, Signature
from typing import Any, Final

from ..._utils.exceptions import ToolError
from ...protocol.jsonrpc import Json, is_array, is_object
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
"""The most types in a union hint; a larger union is shown as `Any`."""


class _SignatureOfTool:
    """Descriptor that gives instances a `__signature__` and the class none."""

    def __get__(self, tool: RemoteTool | None, owner: type[RemoteTool]) -> Signature:
        if tool is None:
            raise AttributeError("__signature__")
        return _signature(tool.schema)


class RemoteTool:
    """A tool of a server as a callable. `Client.tools` returns them.

        forecast = (await client.tools())["forecast"]
        day = await forecast(city="Oslo")

    Its signature and docstring, which editors and notebooks show, are made from the server's definition of the tool.

    Args:
        call: Calls a tool by name with its arguments, such as `Client.call_tool`.
        definition: The tool, as the server lists it.

    Attributes:
        name: The name of the tool.
        title: The name for display; `name` if the server sends no title.
        description: The description for models; empty if the server sends none.
        schema: The JSON Schema of its arguments (`inputSchema`).
        output_schema: The JSON Schema of its structured content, or None.
        annotations: Hints about its behaviour, such as `readOnlyHint`. Do not trust those of an untrusted server.
        definition: The tool, as the server lists it.
    """

    def __init__(
        self, call: Callable[[str, Json], Awaitable[CallResult]], definition: Mapping[str, object]
    ) -> None:
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
        """Call the tool and return its value.

        Args:
            arguments: The arguments, JSON values by name.

        Returns:
            The structured content; otherwise the text; otherwise the content blocks, if some are not text. A result
            that the server has wrapped in `{"result": ...}` is unwrapped. Use `Client.call_tool` for the whole result.

        Raises:
            ToolError: The tool failed.
            InvalidResultError: The result does not fit `output_schema`.
            ProtocolError: The server responded with an error.
            TimeoutError: A time limit has passed. The client has cancelled the request.
            OutcomeUnknownError: The server may or may not have run the tool.
            ConnectionError: The server cannot be reached, or the connection was lost before the response.
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
        """Return whether the tool's values are not objects, so that the server wraps them."""
        schema = self.output_schema or {}
        properties: object = schema.get("properties")
        return (
            is_object(properties) and list(properties) == ["result"] and schema.get("required") == ["result"]
        )

    __signature__ = _SignatureOfTool()

    def __repr__(self) -> str:
        """Return a representation with the signature."""
        return f"<tool {self.name}{_signature(self.schema)}>"


def _properties(schema: Json) -> Json:
    found: object = schema.get("properties")
    return found if is_object(found) else {}


def _signature(schema: Json) -> Signature:
    """Return the signature of a tool. The default `...` stands for optional arguments without a default."""
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
    """Placeholder for the default of an optional argument."""

    def __repr__(self) -> str:
        return "..."


_LEFT_OUT: Final = _LeftOut()


def _default(schema: object) -> Any:
    return schema["default"] if is_object(schema) and "default" in schema else _LEFT_OUT


def _described(schema: object) -> str:
    text = schema.get("description") or schema.get("title") if is_object(schema) else None
    return " ".join(str(text or "").split()) or str(getattr(_hint(schema), "__name__", _hint(schema)))


def _hint(schema: object) -> Any:
    """Return the type hint of an argument; `Any` if there is no simple Python type."""
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
