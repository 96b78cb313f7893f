"""Tools, which models call (server/tools)."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import Self, Unpack

from .._utils.errors import HandlerError, OutputError, ProtocolError, RegistrationError
from ..content.data import json_of, json_value, text_of
from ..content.plain import is_json
from ..content.values import ExtensionResult, ToolResult, WholeResult, holds_content, to_content
from ..content.wording import unreadable
from ..options import check_group
from ..protocol.repetition import LONG, RepetitiveResult
from ..protocol.revisions import OBJECTS_ONLY, TASKS_IN_CORE, knows
from ..protocol.types import Json, ToolAnnotations
from ..requests.call import Call
from ..requests.handlers import check_name
from ..schema import Arguments, MirroredParameter, Output
from .checks import check_members
from .component import Listed, optional
from .function import FunctionComponent, function_name
from .options import FunctionOptions, ResultOptions

if TYPE_CHECKING:
    from .task import Task

_STRUCTURES = (dict, list)
_SMALL = 2**63
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")

DEFAULT_RESULT = ResultOptions()


class AnyTool(Listed):
    """Base class of all tools: functions, included servers' tools and `BaseTool`.

    Attributes:
        annotations: Hints on the tool's behaviour, or None.
        task: How calls run as tasks; None when they never do.
    """

    kind = "tool"
    wire = "Tool"
    annotations: ToolAnnotations | None
    task: Task | None = None

    @property
    def name(self) -> str:
        """Name of the tool."""
        return self.key

    @property
    @abstractmethod
    def mirrored(self) -> tuple[MirroredParameter, ...]:
        """Arguments that clients repeat in HTTP headers."""

    @property
    def is_wrapped(self) -> bool:
        """True if protocol versions that only allow objects as structured content get `{"result": value}`."""
        return False

    @abstractmethod
    def schemas(self, revision: str) -> tuple[Json, Json | None]:
        """Return the input schema and the output schema (or None), as lists of a protocol version show them.

        Args:
            revision: Protocol version.
        """

    @abstractmethod
    def call(self, arguments: Json, call: Call) -> Awaitable[Any]:
        """Validate the arguments and run the tool.

        Args:
            arguments: JSON values by name.
            call: The request.

        Returns:
            A `CallToolResult` of the newest protocol version, or an `ExtensionResult`.

        Raises:
            ArgumentsError: The arguments do not match the input schema.
        """

    def renamed(self, key: str) -> Self:
        """Return a copy with another name.

        Args:
            key: Name of the copy.

        Raises:
            RegistrationError: The name is invalid.
        """
        check_tool_name(key)
        return super().renamed(key)

    def describe(self, revision: str) -> Json:
        """Return the `Tool` object of the specification, with fields of every protocol version."""
        input_schema, output_schema = self.schemas(revision)
        annotations = self.annotations
        if self.title is not None and not knows(revision, "Tool", "title"):
            annotations = {"title": self.title, **(annotations or {})}  # its only place for a title then
        return optional(
            name=self.key,
            title=self.title,
            description=self.description,
            inputSchema=input_schema,
            outputSchema=output_schema,
            annotations=annotations,
            execution=self._execution if revision == TASKS_IN_CORE else None,
            icons=self.icons,
            _meta=self.meta,
        )

    @property
    def _execution(self) -> Json | None:
        if self.task is None:
            return None
        return {"taskSupport": "required" if self.task.required else "optional"}


class Tool(FunctionComponent, AnyTool):
    """A tool made from a function.

    Args:
        function: Function that handles calls.
        name: 1 to 128 of `A-Z a-z 0-9 _ - .`; None takes the name of the function.
        annotations: Hints on the tool's behaviour.
        input_schema: A JSON Schema, a TypedDict or a mapping of names to types, in place of the signature. The
            function then receives all arguments as one dict.
        output_schema: A JSON Schema, or a type, in place of the return annotation.
        task: How calls run as tasks; True for `Task()`.
        result: Form of the results; None for `ResultOptions()`.
        options: See `FunctionOptions`.

    Attributes:
        is_structured: Whether results have structured content.
        text: Text beside structured content, see `ResultOptions.text`.

    Raises:
        RegistrationError: The definition cannot be served. The message contains the remedy.
        TypeError: There is no such option.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        annotations: ToolAnnotations | None = None,
        input_schema: Any = None,
        output_schema: Any = None,
        task: Task | bool | None = None,
        result: ResultOptions | None = None,
        **options: Unpack[FunctionOptions],
    ) -> None:
        name = name if name is not None else function_name(function)
        check_tool(name, annotations)
        super().__init__(function, name, **options)
        if result is None:
            result = DEFAULT_RESULT
        check_group(f"tool {name!r}: result", result, ResultOptions)
        if callable(result.text) and options.get("run_in") == "process":
            check_name(f"tool {name!r}: text of the result", result.text)
        self.annotations = annotations
        self.text = result.text
        if task is not None:
            from .task import task_of  # which few servers need

            self.task = task_of(f"tool {name!r}", task)
        self.is_structured = result.structured
        if output_schema is not None and not result.structured:
            raise RegistrationError(
                f"tool {name!r}: output_schema= needs structured content, and ResultOptions(structured=False) sends "
                "none. Remove one of the two"
            )
        self._input_schema = input_schema
        self.describes_arguments = input_schema is None
        self._output_schema = output_schema
        self._drops_unknown = False
        self._arguments: Arguments | None = None
        self._output: Output | None = None

    def drop_unknown_arguments(self) -> None:
        """Ignore unknown arguments, unless the tool's own JSON Schema or `**kwargs` accept them."""
        self._drops_unknown = True
        self.is_resolved = False

    def resolve(self) -> None:
        """Read type hints and build schemas, on the first call.

        Raises:
            RegistrationError: The signature cannot be served, or a tool with `task=` reads a header with credentials,
                which tasks do not store.
        """
        super().resolve()
        if self.task is not None:
            from .task import check_headers

            check_headers(f"tool {self.key!r}", self.headers)

    @property
    def arguments(self) -> Arguments:
        """Input schema and validator."""
        if self._arguments is None:
            self.resolve()
        assert self._arguments is not None
        return self._arguments

    @property
    def mirrored(self) -> tuple[MirroredParameter, ...]:
        """Arguments that clients repeat in HTTP headers."""
        return self.arguments.mirrored

    def build(self) -> None:
        """Build the input schema and the output schema from the type hints."""
        signature = self.signature
        if self._output_schema is not None:
            try:
                self._output = Output.explicit(self._output_schema)
            except RegistrationError as error:
                raise type(error)(f"tool {self.key!r}: {error}") from error
        elif self.is_structured:
            try:
                self._output = Output.of(signature.returns)
            except RegistrationError as error:
                raise type(error)(f"{signature.name}: result: {error}") from error
        if self._input_schema is None:
            self._arguments = Arguments.of(signature, drops_unknown=self._drops_unknown)
            return
        from ..schema import explicit

        arguments = explicit.arguments(self._input_schema, drops_unknown=self._drops_unknown)
        if len(signature.parameters) != 1:
            raise RegistrationError(
                f"tool {self.key!r} has an input_schema, so its function receives the arguments as one dict. "
                f"Give it exactly one parameter besides the Context, not {len(signature.parameters)}"
            )
        self._arguments = arguments

    def schemas(self, revision: str) -> tuple[Json, Json | None]:
        """Return the input schema and the output schema (or None), as lists of a protocol version show them.

        Protocol versions that only allow objects as structured content get an object schema.
        """
        schema, output = self.arguments.schema, self._output
        if output is None:
            return schema, None
        return schema, output.object_schema if revision in OBJECTS_ONLY else output.schema

    @property
    def is_wrapped(self) -> bool:
        """True if protocol versions that only allow objects as structured content get `{"result": value}`."""
        output = self._output
        return output is not None and output.is_wrapped

    def call(self, arguments: Json, call: Call) -> Awaitable[Any]:
        """Validate the arguments and run the function.

        Args:
            arguments: JSON values by name.
            call: The request.

        Returns:
            The function's value, converted by `render`.

        Raises:
            ArgumentsError: The arguments do not match the input schema.
            BaseException: Raised by the function, see `run`.
        """
        kwargs = (self._arguments or self.arguments).validate(arguments)
        if self._input_schema is not None:
            kwargs = {self.signature.parameters[0].python_name: kwargs}
        return self.run(kwargs, call, self.render)

    def call_within(self, arguments: Json, call: Call, seconds: float) -> Awaitable[Any]:
        """Validate the arguments and run the function, with another timeout.

        Args:
            arguments: JSON values by name.
            call: The request.
            seconds: Timeout in seconds, in place of the tool's.
        """
        kwargs = self.arguments.validate(arguments)
        if self._input_schema is not None:
            kwargs = {self.signature.parameters[0].python_name: kwargs}
        return self.run_within(kwargs, call, self.render, seconds)

    def render(self, value: Any) -> Json:
        """Convert a returned value to a `CallToolResult` of the newest protocol version.

        Args:
            value: Value that the function returned. An `ExtensionResult` is returned as it is.

        Raises:
            OutputError: The value cannot be converted to JSON, or does not match the output schema.
            HandlerError: Code of the tool raised an exception while the value was read.
        """
        if isinstance(value, WholeResult):
            return (
                self._render_result(value)
                if isinstance(value, ToolResult)
                else cast("ExtensionResult", value)
            )
        output = self._output
        if output is not None:
            return self._structured(value, output.dump(value))
        if not is_json(value):
            return self._render_any(value)
        if type(value) not in _STRUCTURES or not self.is_structured:
            return {"content": to_content(value)}
        return self._structured(value, value)

    def _render_any(self, value: Any) -> Json:
        """Return the result for a value that is not JSON and has no output schema."""
        from ..content.reading import unrolled

        value = unrolled(value)
        if not self.is_structured or holds_content(value):
            return {"content": to_content(value)}
        data = json_value(value)
        if type(data) not in _STRUCTURES:
            return {"content": to_content(data)}
        return self._structured(value, data)

    def _structured(self, value: Any, data: Any) -> Json:
        if self.text != "json":
            return {"content": self._content_of(value, data), "structuredContent": data}
        if type(data) is str:
            if len(data) >= LONG:
                return RepetitiveResult(data, json_of(data), data)
            text = data
        elif type(data) is int and -_SMALL < data < _SMALL:
            text = repr(data)  # which is its JSON
        else:
            data_json = json_of(data)
            text = data_json.decode()
            if len(data_json) >= LONG:
                return RepetitiveResult(data, data_json, text)
        return {"content": [{"type": "text", "text": text}], "structuredContent": data}

    def _content_of(self, value: Any, data: Any) -> list[Json]:
        if self.text == "json":
            return [{"type": "text", "text": text_of(data)}]
        if callable(self.text):
            return to_content(self._text(value))
        return []

    def _text(self, value: Any) -> Any:
        assert callable(self.text)
        try:
            return self.text(value)
        except (OutputError, HandlerError, ProtocolError):
            raise
        except Exception as error:
            raise OutputError(unreadable("the text of its result", error)) from error

    def _render_result(self, value: ToolResult) -> Json:
        result: Json = {}
        structured = value.structured
        has_structured = structured is not ToolResult.ABSENT
        if self._output is not None and not has_structured and not value.is_error:
            raise OutputError(
                "its return type declares structured content, and the ToolResult has none. Pass "
                "structured= to ToolResult"
            )
        if has_structured:
            structured = (
                self._output.dump(structured)
                if self._output and not value.is_error
                else json_value(structured)
            )
        if value.content is None:
            result["content"] = self._content_of(value.structured, structured) if has_structured else []
        else:
            result["content"] = to_content(value.content)
        if has_structured:
            result["structuredContent"] = structured
        if value.is_error:
            result["isError"] = True
        if value.meta:
            result["_meta"] = dict(value.meta)
        return result


def check_tool(name: Any, annotations: ToolAnnotations | None) -> None:
    """Check the name and the annotations of a tool.

    Raises:
        RegistrationError: The name is invalid, or the annotations have an unknown member.
    """
    check_tool_name(name)
    if annotations is not None:
        check_members(f"tool {name!r}: annotations", annotations, ToolAnnotations)


def check_tool_name(name: Any) -> None:
    """Check a tool name against the specification (server/tools, "Tool Names").

    Raises:
        RegistrationError: The name is invalid.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RegistrationError(
            f"invalid tool name {name!r}: use 1 to 128 of the characters A-Z a-z 0-9 _ - and ."
        )
