"""Prompts, and completion of the arguments of prompts and resource templates (server/prompts, utilities/completion)."""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, cast

from typing_extensions import Unpack

from .._utils.exceptions import OutputError, RegistrationError
from ..content.blocks import BLOCKS, Message, check_block, quoted
from ..content.json_encoding import json_value
from ..content.results_to_blocks import to_content
from ..execution.coroutines import finish_awaitable
from ..protocol.jsonrpc import Json, is_array, is_object
from ..protocol.revisions import narrow
from ..requests.request_record import Call, run_limited
from ..requests.timeouts_and_concurrency import CallLimits
from ..schema import Arguments
from ..schema.function_signatures import empty, head
from .component import FunctionComponent, FunctionOptions, Listed, function_name, optional
from .dependencies import is_hidden

if TYPE_CHECKING:
    from .dependency_runner import Injection


# Completion


CompletionFunction = Callable[..., Iterable[str] | Awaitable[Iterable[str]]]
Completer = CompletionFunction | Sequence[str]
Completers = Mapping[str, Completer]

# Values in one answer, as the specification has it.
MOST = 100

# Number of values of a function that are counted. Beyond it, `hasMore` is set without an exact `total`.
MOST_COUNTED = 10_000

# Timeout in seconds of a completion where the server has no `timeout=`: a user is typing meanwhile.
TIMEOUT = 10.0


class Complete:
    """Marks an argument as completed by a function: `Annotated[str, Complete(cities)]`.

    Args:
        function: `fn(value, arguments)` or `fn(value)`, sync or async, that returns the matching values, best first.
            `value` is what the user has typed, `arguments` are the arguments already filled in. It may also have a
            Context or `Depends(...)` parameters, as tools do. A sequence of strings offers those that contain `value`.
    """

    def __init__(self, function: Completer) -> None:
        self.function = function


class Completion:
    """Completion of one argument, by a function or from a list of values.

    Args:
        what: The argument, for messages.
        completer: A function, or all values.

    Attributes:
        completer: The function, or all values.
        names: Parameters for the value and for the other arguments, as far as the function has them; None for one
            that is passed by position.
        injection: Dependencies of the function; None if there are none.

    Raises:
        RegistrationError: The function or value cannot be used for completion.
    """

    def __init__(self, what: str, completer: Completer) -> None:
        self.injection: Injection | None = None
        self.completer = completer
        self.names: list[str | None] = []
        if not callable(completer):
            if isinstance(completer, str) or not hasattr(completer, "__iter__"):
                raise RegistrationError(
                    f"{what}: complete= must be a list of strings or a function, got {completer!r}"
                )
            return
        injected: list[tuple[str, Any, Any]] = []
        read = head(completer)
        for each in read.parameters:
            annotation = read.hints.get(each.name, empty)
            if is_hidden(annotation, each.default):
                injected.append((each.name, annotation, each.default))
            elif each.name not in read.bound and each.kind is not each.VAR_KEYWORD:
                by_name = each.kind in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}
                self.names.append(each.name if by_name else None)
        if len(self.names) > len(("value", "arguments")):
            raise RegistrationError(
                f"{what}: the completion function is called as fn(value, arguments), but takes {len(self.names)} "
                "parameters"
            )
        if injected:
            from .dependency_runner import Injection

            self.injection = Injection(what, injected)


async def complete(
    completion: Completion, value: str, arguments: Mapping[str, str], call: Call
) -> dict[str, Any]:
    """Return the `completion` member of a `CompleteResult`.

    Args:
        completion: Completion of the argument.
        value: What the user has typed.
        arguments: The arguments already filled in.
        call: The request.

    Raises:
        CallTimeoutError: The function took longer than the server's `Timeouts.call`, or else `TIMEOUT` seconds.
        TypeError: It did not return a list of strings.
        Exception: Raised by the function.
    """
    completer = completion.completer
    if callable(completer):
        timeout = call.runtime.timeouts.call
        run = _run(completion, completer, (value, dict(arguments)), call)
        limits = CallLimits(TIMEOUT if timeout is None else timeout, None)
        values: list[str] = await run_limited(run, call, limits)
        if len(values) > MOST_COUNTED:
            return {"values": values[:MOST], "hasMore": True}
    else:
        typed = value.casefold()
        values = [item for item in completer if typed in item.casefold()]
        # Sorting is stable: those that begin with it come first, in their order.
        values.sort(key=lambda item: not item.casefold().startswith(typed))
    return {"values": values[:MOST], "total": len(values), "hasMore": len(values) > MOST}


async def _run(
    completion: Completion, completer: CompletionFunction, passed: tuple[str, dict[str, str]], call: Call
) -> list[str]:
    names = completion.names
    kwargs = {name: value for name, value in zip(names, passed, strict=False) if name is not None}
    bound = partial(completer, *passed[: names.count(None)], **kwargs)
    is_in_loop = inspect.iscoroutinefunction(completer)

    def work(**injected: Any) -> Any:  # a generator runs where the function runs
        outcome = bound(**injected)
        return outcome if inspect.isawaitable(outcome) else _strings(outcome)

    if completion.injection is not None:
        values: list[str] = await completion.injection.call(work, {}, call, _strings, is_in_loop=is_in_loop)
        return values
    outcome = work() if is_in_loop else await call.runtime.threads.run(work, {}, call)
    return _strings(await finish_awaitable(outcome))


def _strings(outcome: Any) -> list[str]:
    """Return the values of a completion function as strings."""
    if isinstance(outcome, str) or not hasattr(outcome, "__iter__"):
        raise TypeError(f"a completion function must return a list of strings, got {outcome!r}")
    return [_string(item) for item in islice(cast("Iterable[Any]", outcome), MOST_COUNTED + 1)]


def _string(value: Any) -> str:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Completable(FunctionComponent, Listed):
    """Base class of components with string arguments that can be completed: prompts and resource templates."""

    def __init__(
        self,
        function: Callable[..., Any],
        key: str,
        complete: Completers | None = None,
        **options: Unpack[FunctionOptions],
    ) -> None:
        super().__init__(function, key, **options)
        self._complete = complete
        self._completers: dict[str, Completion] = {}

    @property
    def completers(self) -> Mapping[str, Completion]:
        """Completions by argument name."""
        self.resolve()
        return self._completers

    @property
    def injections(self) -> tuple[Injection, ...]:
        """Dependency plans of the function and of the completion functions."""
        completers = self._completers.values()
        return (*super().injections, *(each.injection for each in completers if each.injection is not None))

    def build(self) -> None:
        """Build arguments and completions from the type hints.

        The completion of an argument is that of `complete=`, of `Complete(...)`, or the values of a Literal or Enum.

        Raises:
            RegistrationError: `complete=` names an unknown parameter, or a value cannot be used for completion.
        """
        completers: dict[str, Completer] = {}
        parameters = self.signature.parameters
        for parameter in parameters:
            if marks := [mark for mark in parameter.metadata if isinstance(mark, Complete)]:
                completers[parameter.name] = marks[-1].function
            elif choices := _choices(parameter.annotation):
                completers[parameter.name] = choices
        names = [parameter.name for parameter in parameters]
        what = f"{self.kind} {self.key!r}"
        for name, completer in (self._complete or {}).items():
            if name not in names:
                raise RegistrationError(
                    f"{what}: complete= has the unknown argument {name!r}. "
                    f"The arguments are: {', '.join(names) or 'none'}"
                )
            completers[name] = completer
        known = completers.items()
        self._completers = {name: Completion(f"{what}: argument {name!r}", each) for name, each in known}
        self._arguments = Arguments.of(self.signature)
        if self._arguments.mirrored:
            raise RegistrationError(
                f"{what}: only arguments of a tool are sent as headers. Remove Header(...)"
            )


def _choices(annotation: Any) -> list[str]:
    """Return the values of a Literal or an Enum, also within Annotated, a union or a list."""
    origin = typing.get_origin(annotation)
    if origin is Literal:
        values: Iterable[Any] = typing.get_args(annotation)
    elif isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        values = [member.value for member in annotation]
    elif origin is not None:
        return [choice for part in typing.get_args(annotation) for choice in _choices(part)]
    else:
        return []
    return [_string(value) for value in values if value is not None]


# Prompts


_ROLES = ("user", "assistant")


class Prompt(Completable):
    """A prompt made from a function.

    Args:
        function: Function that returns the messages: a string, `Message` objects, or content of any kind.
        name: Name of the prompt; None takes the name of the function.
        complete: Completions by argument name: a list of strings, or `fn(value, arguments)`.
        options: See `FunctionOptions`.

    Raises:
        RegistrationError: The definition cannot be served. The message contains the remedy.
        TypeError: There is no such option.
    """

    kind = "prompt"
    wire = "Prompt"

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        complete: Completers | None = None,
        **options: Unpack[FunctionOptions],
    ) -> None:
        name = name if name is not None else function_name(function)
        if not name:
            raise RegistrationError("the name of a prompt must not be empty")
        super().__init__(function, name, complete, **options)

    @property
    def name(self) -> str:
        """Name of the prompt."""
        return self.key

    def build(self) -> None:
        """Build the arguments from the type hints."""
        if self.signature.extra is not inspect.Parameter.empty:
            raise RegistrationError(
                f"prompt {self.key!r}: clients need the name of each argument. Replace **kwargs by named parameters"
            )
        super().build()

    def describe(self, revision: str) -> Json:
        """Return the `Prompt` object of the specification, with fields of every protocol version."""
        schema = self.arguments.schema
        required = schema.get("required", ())
        arguments = [
            narrow(
                "PromptArgument",
                optional(
                    name=name,
                    title=definition.get("title"),
                    description=definition.get("description"),
                    required=True if name in required else None,
                ),
                revision,
            )
            for name, definition in schema["properties"].items()
        ]
        return self._entry({"name": self.key}, arguments=arguments or None)

    async def get(self, arguments: Mapping[str, str], call: Call) -> Json:
        """Parse the arguments, run the function and return the messages.

        Args:
            arguments: Strings by argument name; each is parsed to the type of its parameter.
            call: The request.

        Returns:
            A `GetPromptResult` of the newest protocol version.

        Raises:
            ArgumentsError: The arguments do not match the parameters.
            Exception: Raised by the function.
        """
        messages = await self.run(self.arguments.validate_strings(arguments), call, to_messages)
        return optional(description=self.description, messages=messages)


def to_messages(value: Any) -> list[Json]:
    """Convert the value of a prompt's function to messages of the newest protocol version.

    Args:
        value: A string, a `Message`, a message as a dict (`{"role": ..., "content": ...}`), content of any kind, or a
            list of these. Content that is not a message becomes a message of the user.

    Raises:
        OutputError: A part is not a message, or cannot be converted to JSON. The message has its place.
        HandlerError: Code of the prompt raised an exception while the value was read.
    """
    if isinstance(value, Iterator):
        from ..content.json_encoding import unrolled

        value = unrolled(value)
    if not isinstance(value, (list, tuple)):
        return _messages(value, "result")
    parts = cast("Sequence[Any]", value)
    return [message for index, part in enumerate(parts) for message in _messages(part, f"result[{index}]")]


def _messages(part: Any, place: str) -> list[Json]:
    """Return the messages of one part of the value: one for each content block."""
    role = "user"
    if isinstance(part, Message):
        role, blocks = part.role, to_content(part.content, f"{place}.content")
    # A dict is a message, or data: a role that is none of ours makes it data, unless there is content too.
    elif is_object(part) and (
        part.keys() >= {"role", "content"} or (part.keys() == {"role"} and part["role"] in _ROLES)
    ):
        role = part["role"]
        if role not in _ROLES:
            hint = '. Put the text of a system prompt into a message of the "user"' * (role == "system")
            raise OutputError(f'{place}.role: expected "user" or "assistant", got {quoted(role)}{hint}')
        if "content" not in part:
            raise OutputError(f"{place}.content: expected text or other content, but it is missing")
        if others := [name for name in part if name not in ("role", "content")]:
            raise OutputError(f'{place}.{others[0]}: unknown key. A message has "role" and "content"')
        blocks = _blocks(part["content"], f"{place}.content")
    else:
        blocks = to_content(part, place)
    return [{"role": role, "content": block} for block in blocks]


def _blocks(content: Any, place: str) -> list[Json]:
    """Return the content of a message that is a dict: as the specification writes a block, or as for a `Message`."""
    if is_array(content):
        return [block for index, item in enumerate(content) for block in _blocks(item, f"{place}[{index}]")]
    if not is_object(content) or "type" not in content:
        return to_content(content, place)
    kind = content["type"]
    if kind not in BLOCKS:
        raise OutputError(f"{place}.type: expected one of {', '.join(BLOCKS)}, got {quoted(kind)}")
    check_block(content, place)
    return [json_value(content, place)]
