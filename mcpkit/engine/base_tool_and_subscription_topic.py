"""Tools with explicit schemas (`BaseTool`), and topics that clients subscribe to (`SubscriptionTopic`)."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from typing_extensions import Unpack

from .._utils.exceptions import OutputError, RegistrationError
from ..components.component import ComponentOptions, json_object
from ..components.tool import AnyTool, check_tool
from ..content.blocks import ExtensionResult, blocking_allowed, check_block, described
from ..content.json_encoding import json_of, json_value
from ..context import Context
from ..identity.principals_and_scopes import LISTS, RESOURCES, Audience, Change, Principal
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json, is_array, is_object
from ..protocol.objects import ToolAnnotations
from ..protocol.revisions import NOTIFICATIONS, OBJECTS_ONLY
from ..requests.access_and_error_responses import error_for_client
from ..requests.request_record import Call, run_limited
from ..schema import Arguments, MirroredParameter
from ..schema.argument_validation_and_repair import mirrored

_EXAMPLE = 'such as {"content": [{"type": "text", "text": "..."}]}'


class BaseTool(AnyTool):
    """Base class for tools with explicit schemas, such as a tool of another server or an operation of a web API.

    A subclass implements `execute`, and `server.include(tool)` adds an instance:

        class Echo(BaseTool):
            async def execute(self, arguments, ctx):
                return {"content": [{"type": "text", "text": arguments["text"]}]}

        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        server.include(Echo("echo", input_schema=schema))

    Both schemas are published unchanged. Access, limits, middleware and the methods of its Context are as for other
    tools.

    Args:
        name: 1 to 128 of `A-Z a-z 0-9 _ - .`.
        input_schema: JSON Schema of the arguments, with `"type": "object"`.
        output_schema: JSON Schema of the structured content; None for none. Results are not validated against it.
            Clients of versions before 2026-07-28 get it only if it has `"type": "object"`.
        annotations: Hints on the behaviour of the tool.
        validate_input: Whether arguments are validated against `input_schema`, which needs the extra `jsonschema`.
            False leaves that to `execute`.
        options: `title`, `description` and the other options of components, as in the decorator.

    Attributes:
        input_schema: JSON Schema of the arguments.
        output_schema: JSON Schema of the structured content, or None.

    Raises:
        RegistrationError: The definition is invalid; the message contains the fix.
    """

    def __init__(
        self,
        name: str,
        *,
        input_schema: Mapping[str, Any],
        output_schema: Mapping[str, Any] | None = None,
        annotations: ToolAnnotations | None = None,
        validate_input: bool = True,
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
        if validate_input:
            from ..schema import custom_schemas

            try:
                self._arguments = custom_schemas.arguments(self.input_schema)
            except RegistrationError as error:
                raise RegistrationError(f"tool {name!r}: {error}") from error

    @property
    def mirrored(self) -> tuple[MirroredParameter, ...]:
        """The arguments that clients repeat in HTTP headers."""
        return self._mirrored

    @property
    def takes_context(self) -> bool:
        """True, as `execute` gets a Context and may log."""
        return True

    def schemas(self, revision: str) -> tuple[Json, Json | None]:
        """Return both schemas. The output schema is None if it is not of an object and the revision requires that."""
        output = self.output_schema
        if output is not None and revision in OBJECTS_ONLY and output.get("type") != "object":
            output = None
        return self.input_schema, output

    @abstractmethod
    async def execute(self, arguments: dict[str, Any], ctx: Context) -> dict[str, Any]:
        """Execute the tool.

        Args:
            arguments: JSON values by name. They match `input_schema`; with `validate_input=False` they are as
                the client sent them.
            ctx: The request.

        Returns:
            The `CallToolResult`, a dict with at least `content`. The client gets it unchanged; members that its
            protocol version does not have are converted.

        Raises:
            ToolError: The tool failed; the model gets the message. Other exceptions are handled as in a tool function.
        """

    def call(self, arguments: Json, call: Call) -> Awaitable[Any]:
        """Validate the arguments, unless `validate_input` is False, and execute the tool; see `AnyTool.call`."""
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
            if error_for_client(error) is not error:  # not kept in a variable: its traceback has this frame
                raise error_for_client(error) from None
            raise
        if call.dialogue is not None:
            call.dialogue.check_settled()
        return result if isinstance(result, ExtensionResult) else _checked(result)


def _checked(result: Any) -> Json:
    """Return a `CallToolResult` after checks of its members against the specification.

    Raises:
        OutputError: It is not a `CallToolResult`, or a value cannot be written as JSON.
    """
    if not is_object(result):
        raise OutputError(f"result is {described(result)}. Return a CallToolResult, {_EXAMPLE}")
    if result.get("resultType", "complete") != "complete":
        raise OutputError(
            "result.resultType: expected 'complete'. Return extension.result(...) for the result type of an "
            "extension"
        )
    blocks = result.get("content")
    if not is_array(blocks):
        raise OutputError(f"result.content: expected a list of content blocks, {_EXAMPLE}")
    for index, block in enumerate(blocks):
        place = f"result.content[{index}]"
        if not is_object(block) or not isinstance(block.get("type"), str):
            raise OutputError(
                f"{place}: expected a content block, an object with a `type`, got {described(block)}"
            )
        check_block(block, place)
    for name, kind, expected in (("_meta", dict, "a dict"), ("isError", bool, "a bool")):
        if name in result and not isinstance(result[name], kind):
            raise OutputError(f"result.{name}: expected {expected}, got {described(result[name])}")
    with blocking_allowed():  # converted here, in the event loop
        return cast("Json", json_value(result))


# Returns the keys that the client may listen to.
Accept = Callable[[list[str], "Context[Any]"], list[str]]


class SubscriptionTopic:
    """Notifications that clients of an extension subscribe to by key, such as those of jobs by job id.

    `extension.topic(...)` creates it.

    Args:
        member: Member of the filter of `subscriptions/listen` that contains the keys.
        notification: Method of the notification.
        accept: Returns the keys to accept; None accepts all.
        publish: Function that delivers each publication.

    Attributes:
        member: Member of the filter.
        notification: Method of the notification.

    Raises:
        RegistrationError: The member or the notification is invalid or one of the core protocol, or `accept` is not a
            function or is `async`.
    """

    def __init__(
        self, member: str, notification: str, accept: Accept | None, publish: Callable[[Change], None]
    ) -> None:
        given: tuple[Any, Any, Any] = (member, notification, accept)  # untyped authors
        if not (isinstance(given[0], str) and member and member != RESOURCES and member not in LISTS):
            raise RegistrationError(
                f"{member!r} cannot be the member of an extension. Use a name such as 'jobIds', which the filter of "
                "subscriptions/listen in the core protocol does not have"
            )
        is_notification = isinstance(given[1], str) and notification.startswith("notifications/")
        if not is_notification or notification in NOTIFICATIONS:
            raise RegistrationError(
                f"{notification!r} cannot be the notification of an extension. Use a name such as "
                "'notifications/jobs', which the core protocol does not have"
            )
        if accept is not None and (not callable(given[2]) or inspect.iscoroutinefunction(accept)):
            raise RegistrationError(
                f"accept= of {member!r} must be a function, not async, that takes the keys and the Context and "
                f"returns some of the keys, got {accept!r}"
            )
        self.member = member
        self.notification = notification
        self._accept = accept
        self._publish = publish

    def accepted(self, keys: list[str], ctx: Context[Any]) -> list[str]:
        """Return the keys that are accepted, of those that a client requests.

        Args:
            keys: The requested keys.
            ctx: The request.

        Raises:
            ValueError: `accept` returned something else than some of the keys.
            Exception: Any exception of `accept`.
        """
        if self._accept is None:
            return keys
        accepted: Any = self._accept(list(keys), ctx)
        if not is_array(accepted) or not set(keys).issuperset(accepted):
            raise ValueError(
                f"accept= of {self.member!r} must return a list of some of the keys that it was given, not {accepted!r}"
            )
        return accepted

    def publish(
        self,
        key: str,
        params: Mapping[str, Any],
        *,
        to: Principal | Callable[[Principal], bool] | None = None,
    ) -> None:
        """Send the notification to the subscribers of a key: `jobs.publish("42", {"jobId": "42", "status": "done"})`.

        It does not block, and may be called from any thread. A client that reads too slowly gets only the latest
        notification of a key.

        Args:
            key: The key.
            params: Params of the notification, a JSON object.
            to: The subscribed users to notify: a Principal, compared by its id, or a predicate, which must be quick and
                may be called in any thread. None notifies all. With `storage=` it applies to the clients of all
                processes.

        Raises:
            TypeError: The key is not a string, the params are not a JSON object, or `to` is neither a Principal nor
                callable.
            ValueError: `to` is a Principal without an id.
            OutputError: The params cannot be written as JSON.
        """
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"a key of {self.member!r} must be a string, got {key!r}")
        with blocking_allowed():
            data: Any = json_value(params, "params")
        if not is_object(data) or not is_object(data.get("_meta", {})):
            raise TypeError(f"params must be an object, and so must its _meta; got {params!r}")
        audience = None if to is None else Audience.of(to)
        # Written and read again, so that later changes by the author have no effect.
        self._publish(Change(self.notification, key, audience, jsonrpc.decode(json_of(data))))

    def __repr__(self) -> str:
        """Return the member of the filter."""
        return f"<Topic {self.member!r}>"
