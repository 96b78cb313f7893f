"""Requests of a handler to the client: elicitation and roots (client/elicitation, client/roots)."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, Literal, cast, overload

from typing_extensions import TypeForm, TypeVar

from .._utils.errors import ArgumentsError, ClientResponseError, ElicitationError, InvalidAnswerError
from ..content.data import check_sendable
from ..protocol.jsonrpc import is_array, is_object
from ..protocol.revisions import ELICITATION_IDS, knows
from ..protocol.types import Json
from .roots import Root

T = TypeVar("T")
A = TypeVar("A", default=Any)

logger = logging.getLogger(__name__)

DERIVED = "#"
"""Prefix of the names of requests without a key; their index follows."""

_MOST_TOLD = 500
"""Maximum length of the error text shown above a form that is sent again."""

_ACTIONS: tuple[Literal["accept", "decline", "cancel"], ...] = ("accept", "decline", "cancel")


class Question(ABC, Generic[A]):
    """Base class of requests to the client, for `ctx.ask`, which sends several at once.

    Args:
        key: Name of the request among those of one call: 1 to 100 characters, not starting with `#`, used once. Needed
            if the order of requests may change between rounds. By default, the index of the request.
        capabilities: Client capabilities that the request needs.

    Attributes:
        key: The key; None for the index.
        capabilities: Client capabilities that the request needs.
        method: The JSON-RPC method.
    """

    method: str

    def __init__(self, key: str | None, *capabilities: str) -> None:
        if key is not None:
            check_key(key)
        self.key = key
        self.capabilities = capabilities

    @abstractmethod
    def params(self, revision: str) -> Json:
        """Return the params of the request.

        Args:
            revision: Protocol version of the client.

        Raises:
            ValueError: The protocol version does not support the request; the message names the missing feature.
        """

    @abstractmethod
    def read(self, result: Mapping[str, Any]) -> A:
        """Return the value of the client's result.

        Args:
            result: The result object.

        Raises:
            InvalidAnswerError: The result is invalid.
        """

    def request(self, revision: str) -> Json:
        """Return the method and the params.

        Args:
            revision: Protocol version of the client.

        Raises:
            ClientResponseError: The protocol version does not support the request.
        """
        try:
            params = self.params(revision)
        except ValueError as error:
            raise ClientResponseError(f"The client does not support this request: {error}") from None
        return {"method": self.method, "params": params} if params else {"method": self.method}


def asked_again(request: Json, problem: str) -> Json:
    """Return the request of a form again, with the validation error below its message."""
    params = request["params"]
    if len(problem) > _MOST_TOLD:
        problem = f"{problem[:_MOST_TOLD]}…"
    return {**request, "params": {**params, "message": f"{params['message']}\n\n{problem}"}}


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
        from ..schema.form import Form

        super().__init__(key, "elicitation.form")
        self.message = _text("message", message)
        self._form = Form.of(type_)

    def params(self, revision: str) -> Json:
        """Return the message and the schema."""
        from ..schema.form import CannotAskError

        try:
            schema = self._form.schema(revision)
        except CannotAskError as error:
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


def _action(result: Mapping[str, Any]) -> Literal["accept", "decline", "cancel"]:
    for action in _ACTIONS:
        if result.get("action") == action:
            return action
    raise InvalidAnswerError("action: expected accept, decline or cancel")


def check_key(key: object) -> None:
    """Check the key of a request, or of `ctx.once`.

    Raises:
        ValueError: It is invalid.
    """
    if not isinstance(key, str) or not 0 < len(key) <= 100:
        raise ValueError(f"key must be a string of 1 to 100 characters, got {key!r}")
    if key.startswith(DERIVED):
        raise ValueError(
            f"key must not begin with {DERIVED}, which is reserved for generated keys, got {key!r}"
        )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r}")
    check_sendable("", name, value)
    return value
