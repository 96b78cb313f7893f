"""Handlers of a client for requests, log messages and other notifications of a server, the same in all revisions.

client/elicitation; client/sampling (deprecated since 2026-07-28); client/roots; server/utilities/logging.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal, cast

from .._utils.exceptions import METHOD_NOT_FOUND, MalformedError, ProtocolError
from .._utils.option_checks import check_function
from ..protocol.jsonrpc import Json, is_array, is_object
from ..protocol.revisions import CLIENT_METHODS, LOG_LEVEL, STATELESS, check_log_level, knows
from ..requests.elicitation_and_sampling import ElicitationResult, Root, SamplingResult
from .client_session import ClientSession
from .elicitation_and_input_rounds import FormRequest, UrlRequest
from .timeouts_retries_and_progress import SerialCallbacks

_REJECTED: Final = -1
"""The error code of a rejection by the user, from the specification's example."""
_UNNAMED: Final = "unknown"

ElicitationHandler = Callable[[FormRequest], object]
"""Fills in a form; see `FormRequest.result` for its return value. It may be `async`."""

UrlElicitationHandler = Callable[
    [UrlRequest], "bool | ElicitationResult[Any] | Awaitable[bool | ElicitationResult[Any] | None] | None"
]
"""Shows the user a page; see `UrlRequest.result` for its return value. It may be `async`."""

RootList = Sequence["str | PathLike[str] | Root"]
"""Folders and files by their paths or URIs."""

Roots = RootList | Callable[[], "RootList | Awaitable[RootList]"]
"""The client's roots, or a function that returns them."""


# Sampling


class SampleRequest:
    """A sampling request: a server requests a message from the client's model.

    Args:
        params: The params of the request.
        server: The server's `Implementation`.

    Attributes:
        messages: The conversation, each with `role` and `content`: one content block or several.
        max_tokens: The most tokens to generate.
        system: The system prompt, or None.
        temperature: The temperature, or None.
        stop_sequences: Texts at which the model stops.
        model_preferences: `hints` and priorities; empty if the server sends none.
        include_context: `none`, `thisServer` or `allServers`.
        tools: Definitions of tools that the model may use, as in `tools/list`. They need not be tools of the server.
        tool_choice: `auto`, `required` or `none`.
        metadata: Metadata for the model's provider; empty if the server sends none.
        params: All params of the request.
        server: The server's `Implementation` (`name`, `title`). Show the user which server sends the request.

    Raises:
        MalformedError: The params are malformed.
    """

    def __init__(self, params: Json, server: Json) -> None:
        messages: object = params.get("messages")
        if not is_array(messages) or not all(_is_message(each) for each in messages):
            raise MalformedError("messages: expected an array of messages with role and content")
        if type(params.get("maxTokens")) is not int:
            raise MalformedError("maxTokens: expected an integer")
        choice = _member(params, "toolChoice", dict, {})
        self.params = params
        self.server = server
        self.messages: list[Json] = messages
        self.max_tokens: int = params["maxTokens"]
        self.system: str | None = _member(params, "systemPrompt", str, None)
        self.temperature: float | None = _member(params, "temperature", (int, float), None)
        self.stop_sequences: list[str] = _member(params, "stopSequences", list, [])
        self.model_preferences: Json = _member(params, "modelPreferences", dict, {})
        self.include_context: str = _member(params, "includeContext", str, "none")
        self.tools: list[Json] = _member(params, "tools", list, [])
        self.tool_choice: Literal["auto", "required", "none"] = choice.get("mode", "auto")
        self.metadata: Json = _member(params, "metadata", dict, {})

    @property
    def text(self) -> str:
        """The text of the last message; text blocks are joined by newlines."""
        blocks = _blocks(self.messages[-1]) if self.messages else []
        return "\n".join(str(block.get("text")) for block in blocks if block.get("type") == "text")

    def result(self, answer: object) -> Json:
        """Return the `CreateMessageResult` to send to the server.

        Args:
            answer: The generated text; a `SamplingResult`; a `CreateMessageResult` as a dict with at least `content`;
                or None if the user declined.

        Raises:
            ProtocolError: The user declined.
            TypeError: The answer is none of these.
        """
        if answer is None:
            raise ProtocolError(_REJECTED, "The user has rejected the sampling request")
        if isinstance(answer, SamplingResult):
            stopped = {} if answer.stop_reason is None else {"stopReason": answer.stop_reason}
            answer = {"content": answer.content, "role": answer.role, "model": answer.model, **stopped}
        elif isinstance(answer, str):
            answer = {"content": answer, "stopReason": "endTurn"}
        content: object = answer.get("content") if is_object(answer) else None
        if isinstance(content, str):
            content = {"type": "text", "text": content}
        if is_array(content) and len(content) == 1:
            content = content[0]  # before 2025-11-25 there is no other form
        if not is_object(answer) or not all(_is_block(each) for each in _blocks({"content": content})):
            raise TypeError(
                "sampling_handler must return a string, a SamplingResult, or a dict with `content`: a string, "
                "a content block or a list of "
                f"them, not {answer!r}"
            )
        return {"role": "assistant", "model": _UNNAMED, **answer, "content": content}

    def __repr__(self) -> str:
        """Return a representation with the text of the last message."""
        return f"SampleRequest({self.text!r}, max_tokens={self.max_tokens})"


SamplingFunction = Callable[
    [SampleRequest],
    "str | SamplingResult | Mapping[str, Any] | Awaitable[str | SamplingResult | Mapping[str, Any] | None] | None",
]
"""Generates a message with a model; see `SampleRequest.result` for its return value. It may be `async`."""


class SamplingHandler:
    """A sampling function with the sampling capabilities that it supports.

    Args:
        handler: Called with a `SampleRequest`; see `SampleRequest.result` for its return value.
        tools: Whether it passes the tools of a request to the model and returns tool uses (since 2025-11-25).
        context: Whether it supports `include_context` (deprecated).

    Attributes:
        handler: The function.
        tools: Whether it supports tools.
        context: Whether it supports `include_context`.

    Raises:
        TypeError: `handler` is not a function.
    """

    def __init__(self, handler: SamplingFunction, *, tools: bool = False, context: bool = False) -> None:
        check_function("sampling_handler", handler, "a SampleRequest", or_else="or a SamplingHandler")
        self.handler = handler
        self.tools = tools
        self.context = context


def _member(params: Json, name: str, kinds: Any, default: Any) -> Any:
    value = params.get(name, default)
    if value is not None and not isinstance(value, kinds):
        expected = {dict: "an object", list: "an array", str: "a string"}.get(kinds, "a number")
        raise MalformedError(f"{name}: expected {expected}")
    return value


def _is_message(message: object) -> bool:
    return (
        is_object(message) and isinstance(message.get("role"), str) and all(map(_is_block, _blocks(message)))
    )


def _is_block(block: object) -> bool:
    return is_object(block) and isinstance(block.get("type"), str)


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if is_array(content) else [content]


# Dispatch


class RequestDispatcher:
    """Passes requests from the server to the handlers of the client.

    Args:
        elicit: Fills in forms.
        elicit_url: Shows pages to the user.
        sample: Generates messages with a model.
        roots: The folders that the server may use. They can be changed later.

    Attributes:
        server_info: Returns the server's `Implementation`, for handlers.
    """

    def __init__(
        self,
        elicit: ElicitationHandler | None,
        elicit_url: UrlElicitationHandler | None,
        sample: SamplingFunction | SamplingHandler | None,
        roots: Roots | None,
    ) -> None:
        check_function("elicitation_handler", elicit, "a FormRequest")
        check_function("url_elicitation_handler", elicit_url, "a UrlRequest")
        self._elicit = elicit
        self._elicit_url = elicit_url
        self._sampling: SamplingHandler | None = None
        if sample is not None:
            self._sampling = sample if isinstance(sample, SamplingHandler) else SamplingHandler(sample)
        self._roots: Roots | None = None
        self.roots = roots
        self.server_info: Callable[[], Any] = dict

    @property
    def roots(self) -> Roots | None:
        """The folders that the server may use, as given. They can be changed at any time.

        Raises:
            TypeError: On setting: the value is neither a list nor a function.
        """
        return self._roots

    @roots.setter
    def roots(self, roots: Roots | None) -> None:
        if roots is not None and not callable(roots):
            _check_roots(roots)
        self._roots = roots

    def capabilities(self, revision: str) -> Json:
        """Return the capabilities that the client declares in a revision: those with a handler."""
        declared: Json = {}
        has_modes = knows(revision, "ElicitRequestParams", "mode")
        if revision in CLIENT_METHODS["elicitation/create"]:
            handlers = {"url": self._elicit_url, "form": self._elicit}
            modes: Json = {mode: {} for mode, each in handlers.items() if has_modes and each is not None}
            if modes or self._elicit is not None:
                declared["elicitation"] = modes
        if self._sampling is not None:
            declared["sampling"] = {}
            if knows(revision, "CreateMessageRequestParams", "tools"):
                supported = {"tools": self._sampling.tools, "context": self._sampling.context}
                declared["sampling"] = {name: {} for name, is_supported in supported.items() if is_supported}
        if self.roots is not None:
            declared["roots"] = {} if revision in STATELESS else {"listChanged": True}
        return declared

    async def answer(self, method: str, params: Json) -> Json:
        """Handle a request from the server.

        Args:
            method: The method of the request.
            params: Its params.

        Returns:
            The result, in the form of the specification.

        Raises:
            ProtocolError: The error to respond with: there is no handler, or the request is malformed.
            BaseException: The handler failed, or returned an invalid value (TypeError, ValueError).
        """
        if method == "elicitation/create" and not (self._elicit is None and self._elicit_url is None):
            mode = params.get("mode", "form")
            if mode == "form" and self._elicit is not None:
                form = FormRequest(params, self.server_info())
                return form.result(await _awaited(self._elicit(form)))
            if mode == "url" and self._elicit_url is not None:
                page = UrlRequest(params, self.server_info())
                return page.result(await _awaited(self._elicit_url(page)))
            raise MalformedError(f"mode: this client does not answer elicitation in the mode {mode!r:.60}")
        if method == "sampling/createMessage" and self._sampling is not None:
            if not self._sampling.tools and not params.keys().isdisjoint({"tools", "toolChoice"}):
                raise MalformedError(
                    "tools: this client does not declare sampling.tools. Send the request without tools "
                    "and toolChoice"
                )
            request = SampleRequest(params, self.server_info())
            return request.result(await _awaited(self._sampling.handler(request)))
        if method == "roots/list" and self.roots is not None:
            roots = await _awaited(self.roots() if callable(self.roots) else self.roots)
            return {"roots": [_root(each) for each in _check_roots(roots)]}
        raise ProtocolError(METHOD_NOT_FOUND, f"this client does not answer {method:.60}")


def _check_roots(roots: object) -> Sequence[object]:
    if isinstance(roots, str) or not isinstance(roots, Sequence):
        raise TypeError(f"roots= must be a list of paths and URIs, got {roots!r}")
    return cast("Sequence[object]", roots)


async def _awaited(value: object) -> object:
    return await value if inspect.isawaitable(value) else value


def _root(root: object) -> Json:
    """Return the `Root` object of a folder."""
    if isinstance(root, Root):
        return {"uri": root.uri} if root.name is None else {"uri": root.uri, "name": root.name}
    if isinstance(root, str) and (root.startswith("file:") or "://" in root):
        return {"uri": root}
    if isinstance(root, (str, PathLike)):
        return {"uri": Path(cast("str | PathLike[str]", root)).expanduser().absolute().as_uri()}
    raise TypeError(f"roots= must contain only paths and URIs, got {root!r}")


logger = logging.getLogger(__name__)

LogHandler = Callable[[str, Any, "str | None"], object]
"""Called with level, data and logger name (or None) of a log message; it may be `async`."""

MessageHandler = Callable[[str, Json], object]
"""Called with method and params of a notification; it may be `async`."""

_TIMEOUT: Final = 30.0
"""Seconds that a server has to accept the level when a connection is opened, which other requests wait for."""


class ServerLog:
    """Requests the log level from a server, once in a session or with each request in 2026-07-28.

    Args:
        session: The session with the server.
        log: Called with each log message; None for no handler.

    Attributes:
        level: The lowest level to send; None leaves it to the server.

    Raises:
        TypeError: `log` is not a function.
    """

    def __init__(self, session: ClientSession, log: LogHandler | None) -> None:
        self._session = session
        check_function("log_handler", log, "level, data and the logger's name")
        self.level: str | None = None
        session.renewals.append(self._renew)
        if log is None:
            return
        calls = _serial_calls(session)

        def receive(method: str, params: Json | None) -> None:
            if method == "notifications/message" and params is not None:
                level, name = params.get("level"), params.get("logger")
                level = level if isinstance(level, str) else "info"
                calls.call(log, level, params.get("data"), name if isinstance(name, str) else None)

        session.listeners.add(receive)

    def params(self, params: Mapping[str, Any] | None, level: str | None = None) -> Mapping[str, Any] | None:
        """Return the params of a request, with the log level if the protocol version has it there.

        Args:
            params: The params.
            level: The level for this request; None for the level of the client.
        """
        level = level or self.level
        if level is None or self._session.wire.revision not in STATELESS:
            return params
        params = {} if params is None else params
        return {**params, "_meta": {LOG_LEVEL: level, **params.get("_meta", {})}}

    def set_level(self, level: str) -> bool:
        """Set the level, and return whether the server must be notified.

        Raises:
            ProtocolError: There is no such level.
        """
        self.level = check_log_level(level)
        return self._session.is_open and self._session.wire.revision not in STATELESS

    async def _renew(self) -> None:
        """Set the level in a new session."""
        session = self._session
        if self.level is None or session.wire.revision in STATELESS or session.negotiated is None:
            return
        if "logging" in session.negotiated.capabilities:
            await session.exchange("logging/setLevel", {"level": self.level}, None, _TIMEOUT)


def add_message_handler(session: ClientSession, handler: MessageHandler) -> None:
    """Call a handler with each notification that belongs to no request. Its errors are logged.

    Args:
        session: The session with the server.
        handler: The handler.

    Raises:
        TypeError: The handler is not a function.
    """
    check_function("message_handler", handler, "method and params")
    calls = _serial_calls(session)

    def receive(method: str, params: Json | None) -> None:
        try:
            calls.call(handler, method, {} if params is None else params)
        except Exception as error:  # noqa: BLE001 - any error of the handler
            _log_error(error)

    session.listeners.add(receive)


def _serial_calls(session: ClientSession) -> SerialCallbacks:
    """Return a queue of handler calls that stops when the session is closed."""
    calls = SerialCallbacks(_log_error)
    session.losses.add(lambda _: calls.stop() if session.is_closed else None)
    return calls


def _log_error(error: Exception) -> None:
    logger.error(
        "a notification handler raised an exception. The next notifications are still delivered",
        exc_info=error,
    )
