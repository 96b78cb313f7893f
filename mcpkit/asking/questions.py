"""What a handler may ask the client: forms, pages to visit, a model's words, the roots (client/*)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, Literal, cast, overload

from typing_extensions import TypedDict, TypeVar, Unpack

from ..content.values import to_content
from ..errors import AnswerError, ArgumentsError, ElicitationError, InvalidAnswerError
from ..prompts import Message
from ..protocol.jsonrpc import is_array, is_object
from ..protocol.revisions import knows

T = TypeVar("T")
A = TypeVar("A", default=Any)

_ACTIONS: Final[tuple[Literal["accept", "decline", "cancel"], ...]] = ("accept", "decline", "cancel")


class Question(ABC, Generic[A]):
    """One thing to ask the client; `ctx.ask` asks several at once.

    Args:
        key: Its name among the questions of one request, where the same code may ask in another order; by
            default, its place in the order of asking.
        capabilities: What the client must have declared to be asked this.

    Attributes:
        key: As given; None for its place in the order.
        capabilities: What the client must have declared to be asked this.
        method: The request's method.
    """

    method: ClassVar[str]

    def __init__(self, key: str | None, *capabilities: str) -> None:
        if key is not None and not _is_key(key):
            raise ValueError(f"key must be a string of 1 to 100 characters, got {key!r}")
        self.key = key
        self.capabilities = capabilities

    @abstractmethod
    def params(self, revision: str) -> dict[str, Any]:
        """Return the request's params.

        Args:
            revision: The one that the client speaks.

        Raises:
            ValueError: The revision cannot say it; the message says what it cannot.
        """

    @abstractmethod
    def read(self, result: Mapping[str, Any]) -> A:
        """Return the answer that a client's result stands for.

        Args:
            result: The result object.

        Raises:
            InvalidAnswerError: It is not what was asked for.
        """

    def request(self, revision: str) -> dict[str, Any]:
        """Return method and params.

        Raises:
            AnswerError: The revision cannot say what is asked.
        """
        try:
            params = self.params(revision)
        except ValueError as error:
            raise AnswerError(f"The client cannot be asked this: {error}") from None
        return {"method": self.method, "params": params} if params else {"method": self.method}


def digest(request: Mapping[str, Any]) -> str:
    """Return a short text that differs for different questions."""
    import hashlib
    import json

    text = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


class Answer(Generic[T]):
    """What a person made of a question: true when they accepted it.

    Attributes:
        action: `accept`, `decline` (an explicit no) or `cancel` (dismissed without a choice).
    """

    __slots__ = ("_value", "action")

    def __init__(self, action: Literal["accept", "decline", "cancel"], value: T | None = None) -> None:
        self.action = action
        self._value = value

    def __bool__(self) -> bool:
        """Say whether it was accepted."""
        return self.action == "accept"

    @property
    def value(self) -> T:
        """What was entered.

        Raises:
            ElicitationError: It was declined or cancelled; let it pass where there is no other way, as the
                model is told which.
        """
        if self.action != "accept":
            raise ElicitationError(self.action)
        return cast("T", self._value)

    def __repr__(self) -> str:
        """Show action and value."""
        return f"Answer({self.action!r}, {self._value!r})"


class Elicit(Question[Answer[T]]):
    """A form for the user (client/elicitation, "Form Mode"); nothing secret, says the specification.

    Args:
        message: Why it is asked, for the user.
        type_: What to ask for: a pydantic model, dataclass, TypedDict or NamedTuple with fields of text, number,
            boolean, date or choice; or one such type, or a list of choices.
        key: See `Question`.

    Raises:
        TypeError: The message is no string.
        RegistrationError: The type cannot be asked for; the message says what can.
    """

    method = "elicitation/create"

    @overload
    def __init__(self, message: str, type_: type[T], *, key: str | None = None) -> None: ...
    @overload
    def __init__(self: Elicit[Any], message: str, type_: Any, *, key: str | None = None) -> None: ...
    def __init__(self, message: str, type_: Any, *, key: str | None = None) -> None:
        from ..schema.form import Form

        super().__init__(key, "elicitation.form")
        self.message = _text("message", message)
        self._form = Form.of(type_)

    def params(self, revision: str) -> dict[str, Any]:
        """Return message and schema."""
        params: dict[str, Any] = {"message": self.message, "requestedSchema": self._form.schema(revision)}
        if knows(revision, "ElicitRequestParams", "mode"):
            params = {"mode": "form", **params}
        return params

    def read(self, result: Mapping[str, Any]) -> Answer[T]:
        """Return the answer, the form's content as the type that was asked for."""
        action = _action(result)
        if action != "accept":
            return Answer(action)
        content = result.get("content")
        if content is None:
            content = {}
        if not is_object(content):
            raise InvalidAnswerError("content: expected an object")
        try:
            return Answer("accept", self._form.read(content))
        except ArgumentsError as error:
            raise InvalidAnswerError(str(error), is_form=True) from None


class ElicitUrl(Question[Answer[None]]):
    """A page for the user to visit (client/elicitation, "URL Mode"): an `accept` is consent, not completion.

    Args:
        message: Why, for the user.
        url: Where; http or https.
        key: See `Question`.
        elicitation_id: What tells its completion from others (2025-11-25 only).

    Raises:
        TypeError: Message or URL is no string.
        ValueError: The URL is none.
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

    def params(self, revision: str) -> dict[str, Any]:
        """Return message and URL."""
        if not knows(revision, "ElicitRequestParams", "mode"):
            raise ValueError(f"revision {revision} has no elicitation by URL")
        params = {"mode": "url", "message": self.message, "url": self.url}
        if self.elicitation_id is not None and revision == ELICITATION_IDS:
            params["elicitationId"] = self.elicitation_id
        return params

    def read(self, result: Mapping[str, Any]) -> Answer[None]:
        """Return what the user decided."""
        return Answer(_action(result))


class Sampled:
    """What the client's model said.

    Attributes:
        content: Its content blocks, as the specification has them.
        role: Usually `assistant`.
        model: The model's name.
        stop_reason: Why it stopped, such as `endTurn`, `maxTokens` or `toolUse`; None when not told.
    """

    __slots__ = ("content", "model", "role", "stop_reason")

    def __init__(self, content: list[dict[str, Any]], role: str, model: str, stop_reason: str | None) -> None:
        self.content = content
        self.role = role
        self.model = model
        self.stop_reason = stop_reason

    @property
    def text(self) -> str:
        """All that is text in it."""
        return "".join(block["text"] for block in self.content if block.get("type") == "text")

    def __repr__(self) -> str:
        """Show the text."""
        return f"Sampled({self.text!r}, model={self.model!r})"


class SampleOptions(TypedDict, total=False):
    """What a client's model may be told beside the messages (client/sampling, "Creating Messages")."""

    system: str | None
    """A system prompt; the client may change it."""
    temperature: float | None
    """How freely it speaks."""
    stop_sequences: Sequence[str] | None
    """Texts at which it stops."""
    model_preferences: Mapping[str, Any] | None
    """`hints` and priorities, as the specification has them."""
    include_context: Literal["none", "thisServer", "allServers"] | None
    """What the client adds of what it knows (deprecated)."""
    tools: Sequence[Mapping[str, Any]] | None
    """Tools that the model may use, as `tools/list` shows them (since 2025-11-25)."""
    tool_choice: Literal["auto", "required", "none"] | None
    """Whether it must use one."""
    metadata: Mapping[str, Any] | None
    """For the model's provider."""
    key: str | None
    """See `Question`."""


_WIRE: Final = {
    "system": "systemPrompt",
    "temperature": "temperature",
    "stop_sequences": "stopSequences",
    "model_preferences": "modelPreferences",
    "include_context": "includeContext",
    "tools": "tools",
    "metadata": "metadata",
}


class Sample(Question[Sampled]):
    """Words of the client's model (client/sampling; deprecated since 2026-07-28).

    Args:
        messages: A text, or messages as `user(...)` and `assistant(...)` make them.
        max_tokens: The most tokens that it may say.
        options: See `SampleOptions`.

    Raises:
        TypeError: Messages or tools are not written as they should be, or there is no such option.
        ValueError: There are no messages, or max_tokens is below 1.
    """

    method = "sampling/createMessage"

    def __init__(
        self, messages: str | Sequence[Any], *, max_tokens: int, **options: Unpack[SampleOptions]
    ) -> None:
        if unknown := options.keys() - SampleOptions.__annotations__.keys():
            known = ", ".join(SampleOptions.__annotations__)
            raise TypeError(f"there is no option {min(unknown)}=; there are {known}")
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {max_tokens!r}")
        self._messages = _messages(messages)
        self._params: dict[str, Any] = {"maxTokens": max_tokens}
        for name, wire in _WIRE.items():
            if (value := options.get(name)) is not None:
                self._params[wire] = value
        if (choice := options.get("tool_choice")) is not None:
            self._params["toolChoice"] = {"mode": choice}
        for tool in self._params.get("tools", ()):
            if not is_object(tool):
                raise TypeError(f"tools are written as tools/list shows them, each a dict, got {tool!r}")
        needed = ["sampling"]
        if not self._params.keys().isdisjoint({"tools", "toolChoice"}):
            needed.append("sampling.tools")
        super().__init__(options.get("key"), *needed)

    def params(self, revision: str) -> dict[str, Any]:
        """Return what the revision knows of the request."""
        for name in ("tools", "toolChoice"):
            if name in self._params and not knows(revision, "CreateMessageRequestParams", name):
                raise ValueError(f"revision {revision} has no {name} in sampling")
        if knows(revision, "CreateMessageRequestParams", "tools"):
            return {"messages": self._messages, **self._params}
        # Before there were tools, a message had one block of content.
        messages = [
            {**message, "content": block}
            for message in self._messages
            for block in (message["content"] if is_array(message["content"]) else [message["content"]])
        ]
        return {"messages": messages, **self._params}

    def read(self, result: Mapping[str, Any]) -> Sampled:
        """Return the model's message."""
        content, role, model = result.get("content"), result.get("role"), result.get("model")
        blocks: list[Any] = content if is_array(content) else [content]
        if not all(is_object(block) and isinstance(block.get("type"), str) for block in blocks):
            raise InvalidAnswerError("content: expected a content block, or an array of them")
        if not all(isinstance(block.get("text"), str) for block in blocks if block["type"] == "text"):
            raise InvalidAnswerError("content: expected a string as text")
        if not isinstance(role, str) or not isinstance(model, str):
            raise InvalidAnswerError("expected the strings role and model")
        stop_reason = result.get("stopReason")
        return Sampled(blocks, role, model, stop_reason if isinstance(stop_reason, str) else None)


class Root:
    """A place in the file system, or elsewhere, that the client wants servers to stay within.

    Attributes:
        uri: Its URI; `file://` so far.
        name: A name for people, or None.
    """

    __slots__ = ("name", "uri")

    def __init__(self, uri: str, name: str | None = None) -> None:
        self.uri = uri
        self.name = name

    def __repr__(self) -> str:
        """Show URI and name."""
        return f"Root({self.uri!r}, {self.name!r})"


class ListRoots(Question[list[Root]]):
    """The client's roots (client/roots; deprecated since 2026-07-28)."""

    method = "roots/list"

    def __init__(self, *, key: str | None = None) -> None:
        super().__init__(key, "roots")

    def params(self, revision: str) -> dict[str, Any]:
        """Return nothing: the request has no params."""
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


ELICITATION_IDS: Final = "2025-11-25"
"""The one revision in which an elicitation by URL has an id, and its completion is told."""


def _action(result: Mapping[str, Any]) -> Literal["accept", "decline", "cancel"]:
    for action in _ACTIONS:
        if result.get("action") == action:
            return action
    raise InvalidAnswerError("action: expected accept, decline or cancel")


def _is_key(key: object) -> bool:
    return isinstance(key, str) and 0 < len(key) <= 100


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r}")
    return value


def _messages(messages: object) -> list[dict[str, Any]]:
    if isinstance(messages, str):
        return [{"role": "user", "content": {"type": "text", "text": messages}}]
    if not isinstance(messages, Sequence):
        raise TypeError(
            f'messages are a string, or a list of user("...") and assistant("..."), got {messages!r}'
        )
    found: list[dict[str, Any]] = []
    for message in cast("Sequence[object]", messages):
        if isinstance(message, Message):
            blocks = to_content(message.content)
            found.append({"role": message.role, "content": blocks[0] if len(blocks) == 1 else blocks})
        elif is_object(message):
            found.append(message)
        else:
            raise TypeError(f'messages are written user("...") and assistant("..."), got {message!r}')
    if not found:
        raise ValueError("messages must hold at least one message")
    return found
