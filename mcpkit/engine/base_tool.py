"""A tool that has no function behind it: a tool of another server, or an operation of a web interface."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Awaitable, Mapping
from typing import Any, cast

from typing_extensions import Unpack

from ..calls.call import Call
from ..calls.failures import spoken
from ..calls.limits import run_limited
from ..common.errors import OutputError, RegistrationError
from ..components.checks import json_object
from ..components.context import Context
from ..components.options import ComponentOptions
from ..components.tools import AnyTool, check_tool
from ..content.data import json_value
from ..content.lazy import staying
from ..content.specified import check_block
from ..content.values import ExtensionResult
from ..content.wording import described
from ..protocol.jsonrpc import is_array, is_object
from ..protocol.revisions import OBJECTS_ONLY
from ..protocol.types import Json, ToolAnnotations
from ..schema import Arguments, MirroredParameter
from ..schema.mirrored import mirrored

_SUCH_AS = 'such as {"content": [{"type": "text", "text": "..."}]}'


class BaseTool(AnyTool):
    """A tool that has no function behind it; a class of one's own says in `execute` what it does.

    Both schemas are published as they are. `server.add(tool)` registers it. All else is as for other tools: who may see
    it, its limits, middleware, and what its Context can do.

    Args:
        name: 1 to 128 of `A-Z a-z 0-9 _ - .`.
        input_schema: The JSON Schema of its arguments, which says `"type": "object"`.
        output_schema: The JSON Schema of its structured content; None promises none. Results are not held against it.
            Revisions before 2026-07-28 have it only where it says `"type": "object"`.
        annotations: Hints on its behaviour.
        validates: Whether arguments are held against `input_schema`, which takes the extra `jsonschema`; False leaves
            that to `execute`.
        options: `title`, `description` and what else every component has, as the decorator takes it.

    Attributes:
        input_schema: The JSON Schema of its arguments.
        output_schema: That of its structured content, or None.

    Raises:
        RegistrationError: The definition cannot be served; the message says what to change.
    """

    def __init__(
        self,
        name: str,
        *,
        input_schema: Mapping[str, Any],
        output_schema: Mapping[str, Any] | None = None,
        annotations: ToolAnnotations | None = None,
        validates: bool = True,
        **options: Unpack[ComponentOptions],
    ) -> None:
        check_tool(name, annotations)
        super().__init__(name, options)
        self.annotations = annotations
        self.input_schema = json_object(f"tool {name!r}: input_schema", input_schema)
        if self.input_schema.get("type") != "object":
            raise RegistrationError(
                f'tool {name!r}: input_schema: the root of the JSON Schema must have `"type": "object"`'
            )
        self.output_schema: Json | None = None
        if output_schema is not None:
            self.output_schema = json_object(f"tool {name!r}: output_schema", output_schema)
        self._mirrored = mirrored(f"tool {name!r}: input_schema", self.input_schema)
        self._arguments: Arguments | None = None
        if validates:
            from ..schema import explicit

            try:
                self._arguments = explicit.arguments(self.input_schema)
            except RegistrationError as error:
                raise RegistrationError(f"tool {name!r}: {error}") from error

    @property
    def mirrored(self) -> tuple[MirroredParameter, ...]:
        """The arguments that clients repeat in HTTP headers."""
        return self._mirrored

    @property
    def takes_context(self) -> bool:
        """That `execute` may log."""
        return True

    def schemas(self, revision: str) -> tuple[Json, Json | None]:
        """Return both schemas; one of no object is kept from revisions that only know objects."""
        output = self.output_schema
        if output is not None and revision in OBJECTS_ONLY and output.get("type") != "object":
            output = None
        return self.input_schema, output

    @abstractmethod
    async def execute(self, arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
        """Do what the tool is for.

        Args:
            arguments: JSON values by name: those that fit `input_schema`, or with `validates=False` what was sent.
            ctx: The request.

        Returns:
            The `CallToolResult`, with `content` at least. It reaches the client as it is, with all that it holds; only
            what an older revision cannot say is said in the way of that revision.

        Raises:
            ToolError: What the model is to read; and whatever else a function of a tool may raise.
        """

    def call(self, arguments: Json, call: Call) -> Awaitable[Any]:
        """Validate the arguments where that is wanted, and execute it within its limits; see `AnyTool.call`."""
        if self._arguments is not None:
            arguments = self._arguments.validate(arguments)
        return run_limited(self._run(dict(arguments), call), call, self._limits)

    async def _run(self, arguments: Json, call: Call) -> Json:
        if call.dialogue is not None:
            call.dialogue.begin()
        try:
            pending: Any = self.execute(arguments, Context(call))
            if not inspect.isawaitable(pending):
                raise TypeError(
                    f"{self.origin}.execute returned {described(pending)}. Write `async def execute`"
                )
            result: Json = await pending
        except BaseException as error:
            if spoken(error) is not error:  # not kept in a variable: its traceback has this frame
                raise spoken(error) from None
            raise
        if call.dialogue is not None:
            call.dialogue.check_settled()
        return result if isinstance(result, ExtensionResult) else _checked(result)


def _checked(result: Any) -> Json:
    """Return the result of a tool, whose members that the specification has are as every revision needs them.

    Raises:
        OutputError: It is no `CallToolResult`, or something in it has no form in JSON.
    """
    if not is_object(result):
        raise OutputError(f"result is {described(result)}. Return a CallToolResult, {_SUCH_AS}")
    if result.get("resultType", "complete") != "complete":
        raise OutputError(
            "result.resultType: expected 'complete'. Return extension.result(...) for the result type of an "
            "extension"
        )
    blocks = result.get("content")
    if not is_array(blocks):
        raise OutputError(f"result.content: expected a list of content blocks, {_SUCH_AS}")
    for index, block in enumerate(blocks):
        place = f"result.content[{index}]"
        if not is_object(block) or not isinstance(block.get("type"), str):
            raise OutputError(
                f"{place}: expected a content block, an object with a `type`, got {described(block)}"
            )
        check_block(block, place)
    for name, kind, what in (("_meta", dict, "a dict"), ("isError", bool, "a bool")):
        if name in result and not isinstance(result[name], kind):
            raise OutputError(f"result.{name}: expected {what}, got {described(result[name])}")
    with staying():  # what is no JSON yet
        return cast("Json", json_value(result))
