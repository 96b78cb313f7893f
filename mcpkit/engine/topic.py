"""Topics of extensions: notifications that clients subscribe to by key."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .._utils.exceptions import RegistrationError
from ..content.data import json_of, json_value
from ..content.lazy import staying
from ..context import Context
from ..identity.audience import Audience
from ..identity.change import LISTS, RESOURCES, Change
from ..identity.principal import Principal
from ..protocol import jsonrpc
from ..protocol.jsonrpc import is_array, is_object
from ..protocol.revisions import NOTIFICATIONS

Accept = Callable[[list[str], "Context[Any]"], list[str]]
"""Returns the keys that the client may listen to."""


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
        _check(member, notification, accept)
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
        with staying():
            data: Any = json_value(params, "params")
        if not is_object(data) or not is_object(data.get("_meta", {})):
            raise TypeError(f"params must be an object, and so must its _meta; got {params!r}")
        audience = None if to is None else Audience.of(to)
        # Written and read again, so that what the author does to it afterwards is not told.
        self._publish(Change(self.notification, key, audience, jsonrpc.decode(json_of(data))))

    def __repr__(self) -> str:
        """Return the member of the filter."""
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
