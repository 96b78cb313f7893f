"""Tools, which models call (server/tools)."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, cast

from pydantic_core import to_json
from typing_extensions import Self, Unpack

from .._utils.exceptions import HandlerError, OutputError, ProtocolError, RegistrationError
from .._utils.option_checks import check_count, check_seconds
from ..content.blocks import ExtensionResult, ToolResult, WholeResult, unreadable
from ..content.json_encoding import is_json, json_of, json_value, text_of, unrolled
from ..content.results_to_blocks import holds_content, to_content
from ..options import Options, check_bool, check_group
from ..protocol.jsonrpc import LONG, Json, RepetitiveResult
from ..protocol.objects import ToolAnnotations
from ..protocol.revisions import OBJECTS_ONLY, TASKS_IN_CORE, knows
from ..requests.request_record import Call
from ..schema import Arguments, MirroredParameter, Output
from .component import (
    Access,
    FunctionComponent,
    FunctionOptions,
    Listed,
    check_importable,
    check_members,
    function_name,
)

_CREDENTIALS = frozenset({"authorization", "cookie", "dpop", "proxy-authorization"})
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


# Options

TextOf = Literal["json", "none"] | Callable[[Any], str]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ResultOptions(Options):
    """Form of a tool's result: `@server.tool(result=ResultOptions(text="none"))`.

    Attributes:
        structured: Whether structured content and an output schema are sent.
        text: The text beside structured content: `json` (the same data), `none`, or a function that returns a text
            for the function's value.

    Raises:
        TypeError: There is no such option, or it has the wrong type.
        ValueError: `text` is another word.
    """

    structured: bool = True
    text: TextOf = "json"

    def __post_init__(self) -> None:
        """Check the values."""
        check_bool("ResultOptions(structured=...)", self.structured)
        if self.text not in ("json", "none") and not callable(self.text):
            raise ValueError(
                f'ResultOptions(text=...) must be "json", "none" or a function, got {self.text!r}'
            )


DEFAULT_RESULT = ResultOptions()

Rerun = Literal["safe", "never"]


class Task(NamedTuple):
    """Options for calls that run as tasks: `@server.tool(task=Task(timeout=600))`.

    A task outlives its connection. A client that supports tasks gets a handle at once and fetches the result later.
    Other clients wait for the result in the response, unless `required` is true.

    Attributes:
        timeout: Seconds that one task may run in all, without the time that it waits for input of the user.
        result_ttl: Seconds for which the result is kept.
        rerun: Whether a task is run again when its process ended: `safe` runs the function from the start; `never`
            fails the task, and it is unknown whether its work was done. None is `safe` when the annotations declare
            the tool idempotent or read-only, else `never`.
        attempts: Number of runs that may end with their process before the task fails.
        required: Whether clients that do not support tasks are refused.

    Raises:
        RegistrationError: A value is out of range. The message has its name. Raised when the tool is registered.
    """

    timeout: float = 3600.0
    result_ttl: float = 86400.0
    rerun: Rerun | None = None
    attempts: int = 3
    required: bool = False

    def reruns(self, annotations: ToolAnnotations | None) -> Rerun:
        """Return whether a tool is run again when its process ended: `safe` or `never`.

        Args:
            annotations: Annotations of the tool.
        """
        if self.rerun is not None:
            return self.rerun
        hints = annotations or {}
        return "safe" if hints.get("idempotentHint") or hints.get("readOnlyHint") else "never"


def _checked_task(what: str, task: object) -> Task | None:
    """Return the checked value of `task=`; None when calls are never tasks."""
    if task is None or task is False:
        return None
    if task is True:
        return Task()
    if not isinstance(task, Task):
        raise RegistrationError(
            f"{what}: task= must be True or a Task, such as Task(timeout=600), got {task!r}"
        )
    try:
        check_seconds("timeout", task.timeout)
        check_seconds("result_ttl", task.result_ttl)
        check_count("attempts", task.attempts)
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{what}: task=Task(...): {error}") from None
    if task.rerun not in {"safe", "never", None}:
        raise RegistrationError(f'{what}: task=Task(rerun=...) must be "safe" or "never", got {task.rerun!r}')
    if type(task.required) is not bool:
        raise RegistrationError(
            f"{what}: task=Task(required=...) must be True or False, got {task.required!r}"
        )
    return task


# Tools


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
        check_tool(key, None)
        return super().renamed(key)

    def describe(self, revision: str) -> Json:
        """Return the `Tool` object of the specification, with fields of every protocol version."""
        input_schema, output_schema = self.schemas(revision)
        annotations = self.annotations
        if self.title is not None and not knows(revision, "Tool", "title"):
            annotations = {"title": self.title, **(annotations or {})}  # its only place for a title then
        execution: Json | None = None
        if self.task is not None and revision == TASKS_IN_CORE:
            execution = {"taskSupport": "required" if self.task.required else "optional"}
        return self._entry(
            {"name": self.key},
            inputSchema=input_schema,
            outputSchema=output_schema,
            annotations=annotations,
            execution=execution,
        )


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

    _option_groups: ClassVar[Mapping[str, type[Options]]] = {"access": Access, "result": ResultOptions}

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
        what = f"tool {name!r}"
        if result is None:
            result = DEFAULT_RESULT
        check_group(f"{what}: result", result, ResultOptions)
        if callable(result.text) and options.get("run_in") == "process":
            check_importable(f"{what}: text of the result", result.text)
        self.annotations = annotations
        self.text = result.text
        self.task = _checked_task(what, task)
        self.is_structured = result.structured
        if output_schema is not None and not result.structured:
            raise RegistrationError(
                f"{what}: output_schema= needs structured content, and ResultOptions(structured=False) sends "
                "none. Remove one of the two"
            )
        self._input_schema = input_schema
        self.describes_arguments = input_schema is None
        self._output_schema = output_schema
        self._output: Output | None = None
        self._drops_unknown = False

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
        if self.task is not None and (secrets := sorted(self.headers & _CREDENTIALS)):
            raise RegistrationError(
                f"tool {self.key!r}: a task does not store credentials, so FromHeader({secrets[0]!r}) is always "
                "empty in it. Use ctx.principal, or remove task="
            )

    def build(self) -> None:
        """Build the input schema and the output schema from the type hints."""
        if self._output_schema is not None:
            try:
                self._output = Output.explicit(self._output_schema)
            except RegistrationError as error:
                raise type(error)(f"tool {self.key!r}: {error}") from error
        elif self.is_structured:
            self._output = self._output_of_returns()
        if self._input_schema is None:
            self._arguments = Arguments.of(self.signature, drops_unknown=self._drops_unknown)
            return
        from ..schema import custom_schemas

        arguments = custom_schemas.arguments(self._input_schema, drops_unknown=self._drops_unknown)
        if (count := len(self.signature.parameters)) != 1:
            raise RegistrationError(
                f"tool {self.key!r} has an input_schema, so its function receives the arguments as one dict. "
                f"Give it exactly one parameter besides the Context, not {count}"
            )
        self._arguments = arguments

    @property
    def mirrored(self) -> tuple[MirroredParameter, ...]:
        """Arguments that clients repeat in HTTP headers."""
        return self.arguments.mirrored

    @property
    def is_wrapped(self) -> bool:
        """True if protocol versions that only allow objects as structured content get `{"result": value}`."""
        return self._output is not None and self._output.is_wrapped

    def schemas(self, revision: str) -> tuple[Json, Json | None]:
        """Return the input schema and the output schema (or None), as lists of a protocol version show them.

        Protocol versions that only allow objects as structured content get an object schema.
        """
        schema, output = self.arguments.schema, self._output
        if output is None:
            return schema, None
        return schema, output.object_schema if revision in OBJECTS_ONLY else output.schema

    # Calls

    def call(self, arguments: Json, call: Call, seconds: float | None = None) -> Awaitable[Any]:
        """Validate the arguments and run the function.

        Args:
            arguments: JSON values by name.
            call: The request.
            seconds: Timeout in seconds, in place of the tool's; None for that of the tool.

        Returns:
            The function's value, converted by `render`.

        Raises:
            ArgumentsError: The arguments do not match the input schema.
            BaseException: Raised by the function, see `run`.
        """
        kwargs = (self._arguments or self.arguments).validate(arguments)
        if self._input_schema is not None:
            kwargs = {self.signature.parameters[0].python_name: kwargs}
        return self.run(kwargs, call, self.render, seconds)

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
        if self._output is not None:
            data = self._output.dump(value)
        else:
            data = value
            if not is_json(value):
                value = unrolled(value)
                if not self.is_structured or holds_content(value):
                    return {"content": to_content(value)}
                data = json_value(value)
            if not self.is_structured or type(data) not in (dict, list):
                return {"content": to_content(data)}
        if self.text != "json":
            return {"content": self._text_content(value, data), "structuredContent": data}
        data_json = b""
        if type(data) is str:
            text = data
        elif type(data) is int and -(2**63) < data < 2**63:
            text = repr(data)  # which is its JSON
        else:
            data_json = json_of(data)
            text = data_json.decode()
        if len(text) >= LONG:
            return RepetitiveResult(data, data_json or json_of(data), text)
        return {"content": [{"type": "text", "text": text}], "structuredContent": data}

    def _text_content(self, value: Any, data: Any) -> list[Json]:
        """Return the content beside structured content."""
        if self.text == "json":
            return [{"type": "text", "text": text_of(data)}]
        if not callable(self.text):
            return []
        try:
            text = self.text(value)
        except (OutputError, HandlerError, ProtocolError):
            raise
        except Exception as error:
            raise OutputError(unreadable("the text of its result", error)) from error
        return to_content(text)

    def _render_result(self, value: ToolResult) -> Json:
        output = None if value.is_error else self._output
        has_data = value.structured is not ToolResult.ABSENT
        if output is not None and not has_data:
            raise OutputError(
                "its return type declares structured content, and the ToolResult has none. Pass "
                "structured= to ToolResult"
            )
        result: Json = {"content": []}
        if has_data:
            data = json_value(value.structured) if output is None else output.dump(value.structured)
            result["structuredContent"] = data
        if value.content is not None:
            result["content"] = to_content(value.content)
        elif has_data:
            result["content"] = self._text_content(value.structured, result["structuredContent"])
        if value.is_error:
            result["isError"] = True
        if value.meta:
            result["_meta"] = dict(value.meta)
        return result


# Checks that tools without a function share


def check_tool(name: Any, annotations: ToolAnnotations | None) -> None:
    """Check the name of a tool (server/tools, "Tool Names") and its annotations.

    Raises:
        RegistrationError: The name is invalid, or the annotations have an unknown member.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RegistrationError(
            f"invalid tool name {name!r}: use 1 to 128 of the characters A-Z a-z 0-9 _ - and ."
        )
    if annotations is not None:
        check_members(f"tool {name!r}: annotations", annotations, ToolAnnotations)


def digest_of(schema: Mapping[str, Any]) -> str:
    """Return a digest of a tool's input schema, 16 hexadecimal characters."""
    import hashlib

    return hashlib.sha256(to_json(schema)).hexdigest()[:16]
