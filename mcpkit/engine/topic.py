"""What clients listen to beside lists and resources: the topics of extensions, each under keys of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ..common.errors import RegistrationError
from ..components.context import Context
from ..content.data import json_of, json_value
from ..content.lazy import staying
from ..protocol import jsonrpc
from ..protocol.jsonrpc import is_array, is_object
from ..protocol.revisions import NOTIFICATIONS
from ..state.audience import Audience
from ..state.change import LISTS, RESOURCES, Change
from ..state.principal import Principal

Accept = Callable[[list[str], "Context[Any]"], list[str]]
"""Returns the keys that the client may listen to."""


class SubscriptionTopic:
    """What clients of an extension listen to by keys, such as jobs by their ids; `extension.topic(...)` makes it.

    Args:
        member: The member of the filter of `subscriptions/listen` that has the keys.
        notification: The notification by which they are told.
        accept: Says which keys are honoured; all of them when None.
        tell: Takes what is told.

    Attributes:
        member: The member of the filter.
        notification: The notification.

    Raises:
        RegistrationError: The member or the notification is none, or one of the core protocol; or `accept` is no
            function, or an async one.
    """

    def __init__(
        self, member: str, notification: str, accept: Accept | None, tell: Callable[[Change], None]
    ) -> None:
        _check(member, notification, accept)
        self.member = member
        self.notification = notification
        self._accept = accept
        self._tell = tell

    def accepted(self, keys: list[str], ctx: Context[Any]) -> list[str]:
        """Return the keys that are honoured of those that a client asks for.

        Raises:
            ValueError: The author's function returned something else.
            Exception: Whatever it raised.
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
        """Tell those who listen to a key; from any thread, and at once, as nobody is waited for.

        Clients that are too slow for all that is told of a key are told the latest of it.

        Args:
            key: The key.
            params: The params of the notification: a JSON object.
            to: Who is told, of those who listen: a Principal, known by its id, or a function that says so of each,
                quickly and in any thread; everybody when None. With `storage=` it holds for the clients of all
                processes.

        Raises:
            TypeError: The key is no string, the params are no JSON object, or `to` is something else.
            ValueError: `to` is a Principal without an id.
            OutputError: The params have no form in JSON.
        """
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"a key of {self.member!r} must be a string, got {key!r}")
        with staying():
            data: Any = json_value(params, "params")
        if not is_object(data) or not is_object(data.get("_meta", {})):
            raise TypeError(f"params must be an object, and so must its _meta; got {params!r}")
        audience = None if to is None else Audience.of(to)
        # Written and read again, so that what the author does to it afterwards is not told.
        self._tell(Change(self.notification, key, audience, jsonrpc.decode(json_of(data))))

    def __repr__(self) -> str:
        """Show what is listened to."""
        return f"<Topic {self.member!r}>"


def _check(member: Any, notification: Any, accept: Any) -> None:
    if not isinstance(member, str) or not member or member == RESOURCES or member in LISTS:
        raise RegistrationError(
            f"{member!r} cannot be the member of an extension. Use a name such as 'jobIds', which the filter of "
            "subscriptions/listen in the core protocol does not have"
        )
    is_notification = isinstance(notification, str) and notification.startswith("notifications/")
    if not is_notification or notification in NOTIFICATIONS:
        raise RegistrationError(
            f"{notification!r} cannot be the notification of an extension. Use a name such as 'notifications/jobs', "
            "which the core protocol does not have"
        )
    if accept is not None and (not callable(accept) or inspect.iscoroutinefunction(accept)):
        raise RegistrationError(
            f"accept= of {member!r} must be a function, not async, that takes the keys and the Context and returns "
            f"some of the keys, got {accept!r}"
        )
