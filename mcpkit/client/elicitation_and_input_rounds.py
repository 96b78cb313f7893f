"""Elicitation by forms and URLs, and input rounds: requests sent again with the input that their result requires.

client/elicitation; basic/patterns/mrtr, since 2026-07-28.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from .._utils.concurrency import Listeners
from .._utils.exceptions import INTERNAL_ERROR, MalformedError, ProtocolError
from .._utils.option_checks import nearest
from ..content.json_encoding import json_value
from ..execution.coroutines import gather_or_cancel
from ..protocol.jsonrpc import Json, is_array, is_object, without
from ..protocol.revisions import ASKING, METHODS, ROUND_PARAMS
from ..requests.elicitation_and_sampling import ElicitationResult
from .call_results import malformed

if TYPE_CHECKING:
    from .client_session import RequestHandler

FieldKind = Literal["string", "integer", "number", "boolean", "choice", "choices"]

_PLAIN_KINDS: Final[tuple[FieldKind, ...]] = ("string", "integer", "number", "boolean")


class FormChoice(NamedTuple):
    """One option of a field.

    Args:
        value: The value to send.
        title: The text to display.
    """

    value: str
    title: str


class FormField(NamedTuple):
    """One field of a form.

    Args:
        name: The name of the field in the response.
        title: The text to display; `name` if the server sends no title.
        description: A description, or None.
        kind: The type of its value: `string`, `integer`, `number`, `boolean`, `choice` for one of `choices`, or
            `choices` for a list of them.
        choices: The options; empty for the other kinds.
        default: The value sent if the user leaves the field out; None if there is no default.
        is_required: Whether the field must have a value.
        schema: The JSON Schema of the field, with limits and formats.
    """

    name: str
    title: str
    description: str | None
    kind: FieldKind
    choices: tuple[FormChoice, ...]
    default: Any
    is_required: bool
    schema: Json


class FormRequest:
    """A form elicitation: a server requests that the user fills in a form.

    Args:
        params: The params of the request.
        server: The server's `Implementation`.

    Attributes:
        message: The text that explains the form to the user.
        fields: The fields, in order.
        schema: The JSON Schema of the form, as the server sent it (`requestedSchema`).
        params: All params of the request.
        server: The server's `Implementation` (`name`, `title`). Show the user which server sends the form.

    Raises:
        MalformedError: The params are malformed.
    """

    __slots__ = ("_validator", "fields", "message", "params", "schema", "server")

    def __init__(self, params: Json, server: Json) -> None:
        message, schema = params.get("message"), params.get("requestedSchema")
        if not isinstance(message, str):
            raise MalformedError("message: expected a string")
        properties: object = schema.get("properties") if is_object(schema) else None
        if not is_object(schema) or schema.get("type") != "object" or not is_object(properties):
            raise MalformedError("requestedSchema: expected an object with properties")
        from .server_schemas_and_typed_results import (  # imports all of `schema/`
            ServerSchema,
            UnusableSchemaError,
        )

        try:
            self._validator = ServerSchema(schema, asserts_formats=True)
        except UnusableSchemaError as error:
            raise MalformedError(f"requestedSchema: {error}") from None
        required: object = schema.get("required")
        self.message = message
        self.schema = schema
        self.params = params
        self.server = server
        self.fields = tuple(
            _field(name, each if is_object(each) else {}, is_array(required) and name in required)
            for name, each in properties.items()
        )

    def decline(self) -> ElicitationResult[Any]:
        """Return the value for a handler when the user declines the form."""
        return ElicitationResult("decline")

    def cancel(self) -> ElicitationResult[Any]:
        """Return the value for a handler when the user dismisses the form without a choice. None means the same."""
        return ElicitationResult("cancel")

    def result(self, answer: object) -> Json:
        """Return the `ElicitResult` to send to the server. Defaults fill in fields that are left out.

        Args:
            answer: The values by field name, or an object with these attributes; for a form with one field also the
                value alone; `decline()`, `cancel()` or None.

        Raises:
            ValueError: The values do not fit the form; the message names the place.
            TypeError: The answer is none of these.
        """
        entries = answer
        if isinstance(answer, ElicitationResult):
            result = cast("ElicitationResult[object]", answer)
            if not result:
                return {"action": result.action}
            entries = result.value
        if entries is None:
            return {"action": "cancel"}
        content = self._content(entries)
        self._check(content)
        return {"action": "accept", "content": content}

    def _content(self, answer: object) -> Json:
        entries = json_value(answer, "the value of elicitation_handler")
        if not is_object(entries):
            if len(self.fields) != 1:
                names = ", ".join(field.name for field in self.fields[:20])
                raise TypeError(
                    f"elicitation_handler must return a dict of the form's fields ({names}), request.decline() or "
                    f"None, not {answer!r}"
                )
            entries = {self.fields[0].name: entries}
        content = {name: entry for name, entry in entries.items() if entry is not None}
        for field in self.fields:
            if field.name not in content and field.default is not None:
                content[field.name] = field.default
        return content

    def _check(self, content: Json) -> None:
        known = [field.name for field in self.fields]
        lines = [str(problem) for problem in self._validator.problems(content)]
        for name in content:
            if name not in known:
                guess = nearest(name, known)
                hint = f'did you mean "{guess}"?' if guess else f"there are: {', '.join(known[:20])}"
                lines.append(f"{name}: the form has no such field; {hint}")
        if lines:
            raise ValueError(
                "\n".join(["the value of elicitation_handler does not fit the form:", *lines[:10]])
            )

    def __repr__(self) -> str:
        """Return a representation with the message and the names of the fields."""
        return f"FormRequest({self.message!r}, fields={[field.name for field in self.fields]})"


def _field(name: str, schema: Json, is_required: bool) -> FormField:
    title, description = schema.get("title"), schema.get("description")
    kind: FieldKind = "string"
    for each in _PLAIN_KINDS:
        if schema.get("type") == each:
            kind = each
    choices = _choices(schema)
    if choices:
        kind = "choice"
    elif schema.get("type") == "array":
        items: object = schema.get("items")
        kind, choices = "choices", _choices(items) if is_object(items) else ()
    return FormField(
        name,
        title if isinstance(title, str) else name,
        description if isinstance(description, str) else None,
        kind,
        choices,
        schema.get("default"),
        is_required,
        schema,
    )


def _choices(schema: Json) -> tuple[FormChoice, ...]:
    """Return the options of a field, in any of the forms of the specification."""
    for union in ("oneOf", "anyOf"):
        titled = schema.get(union)
        if is_array(titled) and all(
            is_object(each) and isinstance(each.get("const"), str) for each in titled
        ):
            return tuple(FormChoice(each["const"], str(each.get("title", each["const"]))) for each in titled)
    values, names = schema.get("enum"), schema.get("enumNames")
    if not is_array(values):
        return ()
    if not is_array(names) or len(names) != len(values):
        names = values
    return tuple(FormChoice(value, str(name)) for value, name in zip(values, names, strict=True))


URL_ELICITATION_REQUIRED: Final = -32042
"""Error code: the user has to visit a page before the request can succeed (2025-11-25)."""

_MAX_ROUNDS: Final = 10
_MIN_PAUSE: Final = 1.0
_MAX_PAUSE: Final = 32.0
_MAX_FINISHED: Final = 1_000


class UrlRequest:
    """A URL elicitation: a server requests that the user visits a page.

    mcpkit does not open the page; the handler does. Show the user the whole URL, and ask for consent before opening it.
    The result True means consent, not that the user has finished there.

    Args:
        params: The params of the request.
        server: The server's `Implementation`.

    Attributes:
        message: The text that explains the page to the user.
        url: The URL, with the scheme http or https.
        host: The host of the URL. Show it to the user.
        id: The `elicitationId` of 2025-11-25; None in other versions.
        params: All params of the request.
        server: The server's `Implementation` (`name`, `title`). Show the user which server sends the request.

    Raises:
        MalformedError: The params are malformed.
    """

    __slots__ = ("host", "id", "message", "params", "server", "url")

    def __init__(self, params: Json, server: Json) -> None:
        message, url, id_ = params.get("message"), params.get("url"), params.get("elicitationId")
        if not isinstance(message, str):
            raise MalformedError("message: expected a string")
        self.host = _host(url) if isinstance(url, str) else None
        if not isinstance(url, str) or self.host is None:
            raise MalformedError("url: expected an http or https URL")
        self.message = message
        self.url = url
        self.id = id_ if isinstance(id_, str) else None
        self.params = params
        self.server = server

    def result(self, answer: object) -> Json:
        """Return the `ElicitResult` to send to the server.

        Args:
            answer: True if the user consents, False if the user declines, None if the user dismisses the request, or an
                `ElicitationResult`.

        Raises:
            TypeError: The answer is none of these.
        """
        if isinstance(answer, ElicitationResult):
            return {"action": answer.action}
        if answer is None:
            return {"action": "cancel"}
        if not isinstance(answer, bool):
            raise TypeError(f"url_elicitation_handler must return True, False or None, not {answer!r}")
        return {"action": "accept" if answer else "decline"}

    def __repr__(self) -> str:
        """Return a representation with message and URL."""
        return f"UrlRequest({self.message!r}, {self.url!r})"


def _host(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        return parts.hostname if parts.scheme in ("http", "https") and url.isprintable() else None
    except ValueError:
        return None


async def retry_after_url_elicitation(
    error: ProtocolError,
    send: Callable[[], Awaitable[Json]],
    handler: RequestHandler,
    listeners: Listeners[[str, Json | None]],
) -> Json:
    """Show the user the pages named in an error, and send the request again.

    The request is sent again when the server notifies that the user has finished, and otherwise a few times after a
    pause. The user gets each page once.

    Args:
        error: The error with code -32042.
        send: Sends the request once more, under a new id.
        handler: Handles `elicitation/create`.
        listeners: The listeners to the server's notifications.

    Returns:
        The result.

    Raises:
        ProtocolError: The server responded with another error; or the user declined, or the server repeats this error.
    """
    shown: set[str] = set()
    finished: set[str] = set()
    news = asyncio.Event()

    def on_notification(method: str, params: Json | None) -> None:
        if method == "notifications/elicitation/complete" and params is not None:
            id_ = params.get("elicitationId")
            if isinstance(id_, str) and len(finished) < _MAX_FINISHED:
                finished.add(id_)
                news.set()

    async def wait_until_finished() -> None:
        while not shown <= finished:
            news.clear()
            await news.wait()

    remove_listener = listeners.add(on_notification)
    pause = _MIN_PAUSE
    try:
        for _ in range(_MAX_ROUNDS):
            await _show_pages(error, shown, handler)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(wait_until_finished(), pause)
            pause = min(2 * pause, _MAX_PAUSE)
            try:
                return await send()
            except ProtocolError as again:
                if again.code != URL_ELICITATION_REQUIRED:
                    raise
                error = again
        raise error
    finally:
        remove_listener()


async def _show_pages(error: ProtocolError, shown: set[str], handler: RequestHandler) -> None:
    """Pass the elicitations in an error to the handler, except those shown before; raise the error if one fails."""
    elicitations: object = error.data.get("elicitations") if is_object(error.data) else None
    if not is_array(elicitations) or not elicitations:
        raise error
    if not all(is_object(each) and isinstance(each.get("elicitationId"), str) for each in elicitations):
        raise error
    for elicitation in elicitations:
        if elicitation["elicitationId"] in shown:
            continue
        shown.add(elicitation["elicitationId"])
        try:
            response = await handler.answer("elicitation/create", {**elicitation, "mode": "url"})
        except ProtocolError:  # there is no handler, or the elicitation is malformed
            raise error from None
        if response.get("action") != "accept":
            raise error


_MIN_ROUND_PAUSE: Final = 0.05
"""Seconds before a request is sent again whose result has only a request state, as from a server under load."""


async def complete_input_rounds(
    send: Callable[[Json], Awaitable[Json]],
    method: str,
    params: Json,
    result: Json,
    handler: RequestHandler,
    rounds: int,
) -> Json:
    """Provide the input that a server requires and send the request again, until the result is complete.

    Args:
        send: Sends the request once with the given params, under a new id.
        method: The method of the request.
        params: Its params, which are not changed.
        result: The result that requires input.
        handler: The handler of input requests.
        rounds: The most rounds.

    Returns:
        The last result.

    Raises:
        ProtocolError: The server responded with an error or an invalid input request, or requires input after the last
            round.
        BaseException: A handler failed.
    """
    if method in METHODS and method not in ASKING:
        raise malformed(method, "a result other than input_required, which this method does not allow")
    pause = _MIN_ROUND_PAUSE
    for _ in range(rounds):
        if result.get("resultType") != "input_required":
            return result
        again = without(params, *ROUND_PARAMS)
        if not isinstance(result.get("requestState", ""), str):
            raise malformed(method, "a string as requestState")
        if "requestState" in result:
            again["requestState"] = result["requestState"]
        if "inputRequests" in result:
            again["inputResponses"] = await input_responses(result["inputRequests"], method, handler)
        elif "requestState" in result:
            await asyncio.sleep(pause)
            pause *= 2
        else:
            raise malformed(method, "inputRequests or requestState")
        result = await send(again)
    if result.get("resultType") != "input_required":
        return result
    raise ProtocolError(
        INTERNAL_ERROR,
        f"{method} has been answered with questions in {rounds} rounds, and asks again: clients give up after "
        f"{rounds}. Ask several questions at once with ctx.ask(...), or everything in one form",
    )


async def input_responses(
    requests: object, method: str, handler: RequestHandler, skip: Container[str] = ()
) -> Json:
    """Return the responses to input requests, by key.

    Forms and pages are shown one after the other. Other requests are handled concurrently; if one fails, the others
    are cancelled.

    Args:
        requests: The member `inputRequests` of a result.
        method: The method of the result, for errors.
        handler: The handler of input requests.
        skip: The keys of requests that have been handled before.

    Raises:
        ProtocolError: The requests are malformed.
        BaseException: A handler failed.
    """
    if not is_object(requests):
        raise malformed(method, "an object as inputRequests")
    pending: dict[str, tuple[str, Json]] = {}
    for key, request in requests.items():
        name: object = request.get("method") if is_object(request) else None
        params: object = request.get("params", {}) if is_object(request) else None
        if not isinstance(name, str) or not is_object(params):
            raise malformed(method, "requests with a method as inputRequests")
        if key not in skip:
            pending[key] = name, params
    responses: Json = dict.fromkeys(pending)

    async def respond(keys: list[str]) -> None:
        for key in keys:
            responses[key] = await handler.answer(*pending[key])

    elicitations = [key for key, (name, _) in pending.items() if name == "elicitation/create"]
    groups = [[key] for key in pending if key not in elicitations]
    if elicitations:
        groups.insert(0, elicitations)
    if len(groups) == 1:
        await respond(groups[0])
        return responses
    await gather_or_cancel(respond(keys) for keys in groups)
    return responses
