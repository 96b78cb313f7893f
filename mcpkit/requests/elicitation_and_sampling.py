"""Requests of a handler to its client: elicitation, sampling and roots; alike in both eras."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, overload

from typing_extensions import TypedDict, TypeForm, TypeVar, Unpack

from .._utils.exceptions import (
    ArgumentsError,
    ClientResponseError,
    ElicitationError,
    InvalidAnswerError,
    MissingCapabilityError,
    OutputError,
)
from ..content.blocks import LeaveLoop
from ..content.json_encoding import check_sendable
from ..execution.coroutines import finish_awaitable
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json, is_array, is_object
from ..protocol.revisions import CLIENT_METHODS, ELICITATION_IDS, SAMPLING_CONTENT, knows, tree
from .requests_to_client import Question, type_text

if TYPE_CHECKING:
    from pathlib import Path

    from .request_record import Call, Dialogue

# The modules of calls, schemas and content blocks are imported on use: clients need the results alone.

T = TypeVar("T")

logger = logging.getLogger(__name__)

# Elicitation

_ACTIONS: tuple[Literal["accept", "decline", "cancel"], ...] = ("accept", "decline", "cancel")


class ElicitationResult(Generic[T]):
    """Result of an elicitation. It is true if the user accepted.

    Attributes:
        action: `accept`, `decline` (the user declined) or `cancel` (the user dismissed the request).
    """

    __slots__ = ("_value", "action")

    def __init__(self, action: Literal["accept", "decline", "cancel"], value: T | None = None) -> None:
        self.action = action
        self._value = value

    def __bool__(self) -> bool:
        """Return True if the user accepted."""
        return self.action == "accept"

    @property
    def value(self) -> T:
        """The data that the user entered.

        Raises:
            ElicitationError: The user declined or cancelled. If a handler does not catch it, the model reads which.
        """
        if self.action != "accept":
            raise ElicitationError(self.action)
        return cast("T", self._value)

    def __repr__(self) -> str:
        """Show action and value."""
        return f"ElicitationResult({self.action!r}, {self._value!r})"


class ElicitRequest(Question[ElicitationResult[T]]):
    """A form for the user (client/elicitation, "Form Mode"). The specification forbids requests for secrets.

    Args:
        message: Reason for the request, for the user.
        type_: Type of the data: a pydantic model, dataclass, TypedDict or NamedTuple with fields of text, number,
            boolean, date or choice; or one such type, or a list of choices. Or a JSON Schema, whose value is a dict.
        key: Name of the request; see `Question`.

    Raises:
        TypeError: The message is not a string.
        RegistrationError: A form cannot have this type; the message lists the supported ones.
    """

    method = "elicitation/create"

    @overload
    def __init__(
        self: ElicitRequest[dict[str, Any]], message: str, type_: Mapping[str, Any], *, key: str | None = None
    ) -> None: ...
    @overload
    def __init__(self, message: str, type_: type[T], *, key: str | None = None) -> None: ...
    @overload
    def __init__(self, message: str, type_: TypeForm[T], *, key: str | None = None) -> None: ...
    @overload
    def __init__(self: ElicitRequest[Any], message: str, type_: Any, *, key: str | None = None) -> None: ...
    def __init__(self, message: str, type_: Any, *, key: str | None = None) -> None:
        from ..schema.elicitation_forms import Form

        super().__init__(key, "elicitation.form")
        self.message = _text("message", message)
        self._form = Form.of(type_)

    def params(self, revision: str) -> Json:
        """Return the message and the schema."""
        from ..schema.elicitation_forms import UnsupportedFormError

        try:
            schema = self._form.schema(revision)
        except UnsupportedFormError as error:
            logger.warning("a form could not be sent to a client: %s", error)
            raise ValueError(error.lack) from None
        params: Json = {"message": self.message, "requestedSchema": schema}
        if knows(revision, "ElicitRequestParams", "mode"):
            params = {"mode": "form", **params}
        return params

    def read(self, result: Mapping[str, Any]) -> ElicitationResult[T]:
        """Return the user's action, and the content of the form as the requested type."""
        action = _action(result)
        if action != "accept":
            return ElicitationResult(action)
        content = result.get("content")
        if content is None:
            content = {}
        if not is_object(content):
            raise InvalidAnswerError("content: expected an object")
        try:
            return ElicitationResult("accept", self._form.read(content))
        except ArgumentsError as error:
            raise InvalidAnswerError(str(error), is_form=True) from None


class UrlElicitRequest(Question[ElicitationResult[None]]):
    """A page for the user to visit (client/elicitation, "URL Mode"). The action `accept` is consent, not completion.

    Args:
        message: Reason for the request, for the user.
        url: URL of the page, http or https.
        key: Name of the request; see `Question`.
        elicitation_id: Id for the notification of completion (2025-11-25 only).

    Raises:
        TypeError: Message or URL is not a string.
        ValueError: The URL is not an http or https URL.
    """

    method = "elicitation/create"

    def __init__(
        self, message: str, url: str, *, key: str | None = None, elicitation_id: str | None = None
    ) -> None:
        super().__init__(key, "elicitation.url")
        if not _text("url", url).lower().startswith(("https://", "http://")):
            raise ValueError(f"url must be an http or https URL, got {url!r}")
        self.message = _text("message", message)
        self.url = url
        self.elicitation_id = elicitation_id

    def params(self, revision: str) -> Json:
        """Return the message and the URL."""
        if not knows(revision, "ElicitRequestParams", "mode"):
            raise ValueError(
                f"protocol version {revision} has no elicitation by URL; 2025-11-25 introduced it"
            )
        params = {"mode": "url", "message": self.message, "url": self.url}
        if self.elicitation_id is not None and revision in ELICITATION_IDS:
            params["elicitationId"] = self.elicitation_id
        return params

    def read(self, result: Mapping[str, Any]) -> ElicitationResult[None]:
        """Return the user's action."""
        return ElicitationResult(_action(result))


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r}")
    check_sendable("", name, value)
    return value


def _action(result: Mapping[str, Any]) -> Literal["accept", "decline", "cancel"]:
    for action in _ACTIONS:
        if result.get("action") == action:
            return action
    raise InvalidAnswerError("action: expected accept, decline or cancel")


# Sampling


class SamplingResult:
    """Message of the client's model.

    Attributes:
        content: Content blocks of the message, as in the specification.
        role: Usually `assistant`.
        model: Name of the model.
        stop_reason: Reason why the model stopped, such as `endTurn`, `maxTokens` or `toolUse`; None if unknown.
    """

    __slots__ = ("content", "model", "role", "stop_reason")

    def __init__(self, content: list[Json], role: str, model: str, stop_reason: str | None) -> None:
        self.content = content
        self.role = role
        self.model = model
        self.stop_reason = stop_reason

    @property
    def text(self) -> str:
        """The text blocks of the message, joined."""
        return "".join(block["text"] for block in self.content if block.get("type") == "text")

    def __repr__(self) -> str:
        """Show the text."""
        return f"Sampled({self.text!r}, model={self.model!r})"


class SampleOptions(TypedDict, total=False):
    """Optional parameters of a sampling request (client/sampling, "Creating Messages")."""

    system: str | None
    """A system prompt; the client may change it."""
    temperature: float | None
    """Sampling temperature."""
    stop_sequences: Sequence[str] | None
    """Texts at which the model stops."""
    model_preferences: Mapping[str, Any] | None
    """`hints` and priorities, as in the specification."""
    include_context: Literal["none", "thisServer", "allServers"] | None
    """Context that the client adds to the prompt (deprecated)."""
    tools: Sequence[Mapping[str, Any]] | None
    """Tools that the model may use, in the form of a `tools/list` result (since 2025-11-25)."""
    tool_choice: Literal["auto", "required", "none"] | None
    """Whether the model must use a tool."""
    metadata: Mapping[str, Any] | None
    """Metadata for the provider of the model."""
    key: str | None
    """Name of the request; see `Question`."""


# Params of `sampling/createMessage` by option.
_SAMPLING_PARAMS = {
    "system": "systemPrompt",
    "temperature": "temperature",
    "stop_sequences": "stopSequences",
    "model_preferences": "modelPreferences",
    "include_context": "includeContext",
    "tools": "tools",
    "metadata": "metadata",
}


class SamplingRequest(Question[SamplingResult]):
    """Request to the client's model to generate a message (client/sampling; deprecated since 2026-07-28).

    Args:
        messages: A text, or messages made by `user(...)` and `assistant(...)`.
        max_tokens: Maximum number of tokens to generate.
        options: Optional parameters; see `SampleOptions`.

    Raises:
        TypeError: Messages or tools have the wrong form, contain content that sampling does not support, or an option
            is unknown.
        ValueError: There are no messages, or max_tokens is below 1.
    """

    method = "sampling/createMessage"

    def __init__(
        self, messages: str | Sequence[Any], *, max_tokens: int, **options: Unpack[SampleOptions]
    ) -> None:
        if unknown := options.keys() - SampleOptions.__annotations__.keys():
            known = ", ".join(SampleOptions.__annotations__)
            raise TypeError(f"unknown option {min(unknown)}=. The options are {known}")
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {max_tokens!r}")
        self._given = messages
        self._messages: list[Json] | None = None
        with suppress(LeaveLoop):  # a file in them is read when the request is sent
            self._messages = _messages(messages)
        self._params: Json = {"maxTokens": max_tokens}
        for name, param in _SAMPLING_PARAMS.items():
            if (value := options.get(name)) is not None:
                self._params[param] = value
        if (choice := options.get("tool_choice")) is not None:
            self._params["toolChoice"] = {"mode": choice}
        for tool in self._params.get("tools", ()):
            if not is_object(tool):
                raise TypeError(f"tools must be dicts in the form of a tools/list result, got {tool!r}")
        needed = ["sampling"]
        if not self._params.keys().isdisjoint({"tools", "toolChoice"}):
            needed.append("sampling.tools")
        super().__init__(options.get("key"), *needed)

    def params(self, revision: str) -> Json:
        """Return the params, in the form of the protocol version.

        Raises:
            LeaveLoop: A message contains a file, and this is the thread of an event loop.
        """
        if self._messages is None:
            self._messages = _messages(self._given)
        messages = self._messages
        unsupported = [
            name
            for name in ("tools", "toolChoice")
            if name in self._params and not knows(revision, "CreateMessageRequestParams", name)
        ]
        kinds = {block["type"] for message in messages for block in _blocks(message)}
        unsupported += sorted(kind for kind in kinds if SAMPLING_CONTENT[kind] > revision)
        if unsupported:
            raise ValueError(
                f"protocol version {revision} has no {unsupported[0]} in sampling; omit it for this client"
            )
        if knows(revision, "CreateMessageRequestParams", "tools"):
            return {"messages": messages, **self._params}
        # Before there were tools, a message had one block of content.
        single = [{**message, "content": block} for message in messages for block in _blocks(message)]
        return {"messages": single, **self._params}

    def read(self, result: Mapping[str, Any]) -> SamplingResult:
        """Return the message of the model."""
        content, role, model = result.get("content"), result.get("role"), result.get("model")
        blocks: list[Any] = content if is_array(content) else [content]
        if not all(is_object(block) and isinstance(block.get("type"), str) for block in blocks):
            raise InvalidAnswerError("content: expected a content block or an array of content blocks")
        if not all(isinstance(block.get("text"), str) for block in blocks if block["type"] == "text"):
            raise InvalidAnswerError("content.text: expected a string")
        if not isinstance(role, str) or not isinstance(model, str):
            raise InvalidAnswerError("role and model: expected strings")
        stop_reason = result.get("stopReason")
        return SamplingResult(blocks, role, model, stop_reason if isinstance(stop_reason, str) else None)


def _messages(messages: object) -> list[Json]:
    """Return the JSON of messages."""
    from ..content.blocks import Message
    from ..content.results_to_blocks import to_content

    if isinstance(messages, str):
        return [{"role": "user", "content": {"type": "text", "text": messages}}]
    if not isinstance(messages, Sequence):
        raise TypeError(
            f'messages must be a string, or a list of user("...") and assistant("..."), got {messages!r}'
        )
    found: list[Json] = []
    for index, message in enumerate(cast("Sequence[object]", messages)):
        if isinstance(message, Message):
            try:
                blocks = to_content(message.content, f"messages[{index}].content")
            except OutputError as error:  # it is no result here
                raise ValueError(str(error)) from error.__cause__
            found.append({"role": message.role, "content": blocks[0] if len(blocks) == 1 else blocks})
        elif is_object(message) and all(is_object(block) for block in _blocks(message)):
            found.append(message)
        else:
            raise TypeError(f'each message must be user("...") or assistant("..."), got {message!r}')
        for block in _blocks(found[-1]):
            if block.get("type") not in SAMPLING_CONTENT:
                kinds, type_ = ", ".join(SAMPLING_CONTENT), block.get("type")
                raise TypeError(
                    f"the content of a sampling message must be {kinds}, got {type_!r} in {message!r}"
                )
    if not found:
        raise ValueError("messages must contain at least one message")
    return found


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if is_array(content) else [content]


# Roots


class Root:
    """A root of the client: a folder or another location that the server should stay within (client/roots).

    Attributes:
        uri: URI of the root; only `file://` so far.
        name: Display name, or None.
    """

    __slots__ = ("name", "uri")

    def __init__(self, uri: str, name: str | None = None) -> None:
        self.uri = uri
        self.name = name

    @property
    def path(self) -> Path | None:
        """Path of the root on this machine, which may not exist; None if the URI is not a local file.

        That is: another scheme, another machine, a URI with a query, or a malformed URI.
        """
        from pathlib import Path  # its import would slow each start

        text = file_path(self.uri, is_windows=os.name == "nt")
        return None if text is None else Path(text)

    def __repr__(self) -> str:
        """Show URI and name."""
        return f"Root({self.uri!r}, {self.name!r})"


def file_path(uri: str, *, is_windows: bool) -> str | None:
    """Return the absolute path of a `file:` URI (RFC 8089); None for other URIs.

    Args:
        uri: The URI.
        is_windows: Whether paths begin with a drive letter or the name of a machine.
    """
    from urllib.parse import unquote_to_bytes

    scheme, separator, rest = uri.partition(":")
    if not separator or scheme.lower() != "file" or "?" in rest or "#" in rest:
        return None
    host = ""
    if rest.startswith("//"):
        host, separator, rest = rest[2:].partition("/")
        rest = separator + rest
    is_remote = host not in {"", "localhost"}
    if not rest.startswith("/") or (is_remote and not is_windows):
        return None
    path = os.fsdecode(unquote_to_bytes(rest))
    if "\0" in path:
        return None
    if is_remote:
        return f"//{host}{path}"
    if not is_windows or path.startswith("//"):
        return path
    has_drive = path[1:2].isascii() and path[1:2].isalpha() and path[2:3] == ":"
    return f"{path[1:3]}/{path[4:]}" if has_drive and path[3:4] in {"", "/"} else None


class ListRootsRequest(Question[list[Root]]):
    """Request of the client's roots (client/roots; deprecated since 2026-07-28).

    Args:
        key: Name of the request; see `Question`.
    """

    method = "roots/list"

    def __init__(self, *, key: str | None = None) -> None:
        super().__init__(key, "roots")

    def params(self, revision: str) -> Json:
        """Return an empty dict: the request has no params."""
        return {}

    def read(self, result: Mapping[str, Any]) -> list[Root]:
        """Return the roots."""
        roots = result.get("roots")
        if not is_array(roots) or not all(
            is_object(each) and isinstance(each.get("uri"), str) for each in roots
        ):
            raise InvalidAnswerError("roots: expected an array of objects with a uri")
        return [
            Root(each["uri"], each["name"] if isinstance(each.get("name"), str) else None) for each in roots
        ]


# Sending requests

# Seconds between checks whether the step on a page is complete, before the user is asked again. Their sum is less
# than the usual timeout of a client, but not much less, because clients stop after about 10 rounds.
_POLLS = (0.1, 0.4, 1.0, *[2.0] * 9)

# Classes of requests, by method of `Context`.
_CLASSES = {
    "elicit": "ElicitRequest",
    "elicit_url": "UrlElicitRequest",
    "sample": "SamplingRequest",
    "list_roots": "ListRootsRequest",
}


def dialogue_of(call: Call) -> Dialogue:
    """Return the `Dialogue` of a request, created on first use.

    It is a `Dialogue` in the handshake era and `Rounds` in the stateless era, unless the call was created with another
    one.

    Raises:
        RuntimeError: The method cannot send requests to the client.
        MalformedError: The state that the client brings from an earlier round is malformed, forged or expired.
    """
    if call.dialogue is None:
        if call.era == "handshake":
            from .request_record import Dialogue

            call.dialogue = Dialogue(call)
        else:
            from .multi_round_trip import Rounds

            call.dialogue = Rounds(call)
    return call.dialogue


async def check_rounds(call: Call) -> None:
    """Read the state that a client brings from an earlier round, or reject it before the handler runs.

    Args:
        call: The request.

    Raises:
        MalformedError: The state is malformed, forged, expired, of another request, or already used.
        BusyError: The shared store does not respond, so the server cannot check whether the state was used.
    """
    dialogue = dialogue_of(call)
    if call.runtime.options.single_use_state:
        await dialogue.redeem()


async def ask(call: Call, questions: tuple[Question[Any], ...]) -> tuple[Any, ...]:
    """Send requests to the client at once, and return the answers; see `Context.ask`."""
    for each in cast("tuple[object, ...]", questions):
        if not isinstance(each, Question):
            _close_coroutines(*questions)
            raise TypeError(
                f"ctx.ask takes requests to the client, got {type_text(each)}. {_correction(each)}"
            )
    dialogue = dialogue_of(call)
    requests = await _requests(call, questions)
    names = [dialogue.name(question.key) for question in questions]
    return tuple(await dialogue.ask(questions, requests, names))


async def ask_url(
    call: Call, message: str, url: str, done: Callable[[], bool | Awaitable[bool]] | None, key: str | None
) -> ElicitationResult[None]:
    """Request a visit to a page, until the step there is complete; see `Context.elicit_url`."""
    given: object = done
    if given is not None and not callable(given):
        _close_coroutines(given)
        raise TypeError(
            f"done= must be a function that returns whether the step is complete, got {type_text(given)}. "
            "Write done=is_paid, or done=lambda: ..."
        )
    import hashlib

    dialogue = dialogue_of(call)
    name = dialogue.name(key)
    # The same in all runs of the handler, and unique to this request.
    id_ = hashlib.sha256(f"{dialogue.call_id} {name}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    try:
        questions = (UrlElicitRequest(message, url, key=key, elicitation_id=id_),)
        requests = await _requests(call, questions)
    except BaseException:
        dialogue.release("question", name)
        raise
    timeout = call.runtime.timeouts.client_request
    while True:
        answer: ElicitationResult[None] = (await dialogue.ask(questions, requests, [name]))[0]
        if done is None or not answer:
            return answer
        until = dialogue.until(name, timeout)
        for seconds in (0.0, *_POLLS):
            async with call.paused():
                await asyncio.sleep(seconds)
            if await finish_awaitable(done()):
                dialogue.settle(name)
                if call.revision in ELICITATION_IDS:
                    params = {"elicitationId": id_}
                    call.channel.send(jsonrpc.notification("notifications/elicitation/complete", params))
                return answer
            if time.time() >= until:
                raise ClientResponseError(
                    "The user agreed to open the page, but did not complete the step there within "
                    f"{timeout:g} s. Complete it, then call again"
                )
        dialogue.forget(name)
        call.check_open()


async def _requests(call: Call, questions: Sequence[Question[Any]]) -> list[Json]:
    """Return the JSON of requests, if the client supports them. Files in them are read in a worker thread."""
    is_possible = dialogue_of(call).has_rounds or call.channel.questions is not None
    for question in questions:
        if not is_possible or call.revision not in CLIENT_METHODS[question.method]:
            raise MissingCapabilityError(question.capabilities, tree(question.capabilities))
        call.client.require(*question.capabilities)
    functions = [partial(question.request, call.revision) for question in questions]
    requests: list[Json] = []
    with suppress(LeaveLoop):
        requests = [request() for request in functions]
    if not requests:
        requests = [await call.runtime.threads.run(request, {}, call) for request in functions]
    call.check_open()
    return requests


def _correction(value: object) -> str:
    """Return the correction for a wrong argument of `ctx.ask`."""
    if isinstance(value, str):
        return f"Write ctx.ask(ElicitRequest({value[:50]!r}, bool)), or another type in place of bool"
    method = getattr(value, "__name__", "") if asyncio.iscoroutine(value) else ""
    if method in _CLASSES:
        return f"Write ctx.ask({_CLASSES[method]}(...), ...), as ctx.{method}(...) sends a request of its own"
    if isinstance(value, (list, tuple)):
        return "Write ctx.ask(*questions)"
    return (
        "Write ctx.ask(ElicitRequest(...), UrlElicitRequest(...), SamplingRequest(...), ListRootsRequest())"
    )


def _close_coroutines(*values: object) -> None:
    """Close coroutines that are never awaited."""
    for value in values:
        if asyncio.iscoroutine(value):
            value.close()
