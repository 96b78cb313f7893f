"""What a host and its server have agreed upon, which each new process of the server has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ...identity.principals_and_scopes import LISTS, RESOURCES
from ...protocol.jsonrpc import Json, RequestId, is_array, is_object
from ...protocol.revisions import HANDSHAKE, LATEST_HANDSHAKE, PROTOCOL_VERSION, SUBSCRIPTION_ID

DECLARED: Final[Mapping[str, Json]] = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
}
"""Capabilities that are declared from the start, as they cannot be added to a session later."""


def widened(capabilities: object) -> Json:
    """Return capabilities of a server with all that is declared from the start."""
    own = capabilities if is_object(capabilities) else {}
    return {**own, **{name: {**(own.get(name) or {}), **members} for name, members in DECLARED.items()}}


def params_of(message: Json) -> Json:
    """Return the params of a message; none where they are no object."""
    params: object = message.get("params")
    return params if is_object(params) else {}


def meta_of(message: Json) -> Json:
    """Return the `_meta` of the params of a message; empty where there is none."""
    meta: object = params_of(message).get("_meta")
    return meta if is_object(meta) else {}


def is_stateless(message: Json) -> bool:
    """Say whether a request says for itself who asks, as those of the stateless era do."""
    return PROTOCOL_VERSION in meta_of(message)


@dataclass
class Stream:
    """A `subscriptions/listen` request of the host's that is open.

    Attributes:
        request: The request.
        is_acknowledged: Whether the host has got its acknowledgement, so that another one is not for it.
    """

    request: Json
    is_acknowledged: bool = False

    @property
    def wanted(self) -> Json:
        """What it listens to."""
        wanted: object = params_of(self.request).get("notifications")
        return wanted if is_object(wanted) else {}

    def acknowledgement(self, honoured: object = None) -> Json:
        """Return its acknowledgement.

        Args:
            honoured: What the server is ready to tell of; None for all that is wanted. Lists are told of in any case.
        """
        own = self.wanted if honoured is None else honoured
        lists = {member: True for member in LISTS if self.wanted.get(member) is True}
        return {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {
                "_meta": {SUBSCRIPTION_ID: self.request["id"]},
                "notifications": {**(own if is_object(own) else {}), **lists},
            },
        }

    def changes(self, kinds: set[str]) -> list[Json]:
        """Return the notifications that tell it of lists that have changed, and of resources that may have."""
        told: list[Json] = [
            {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed", "params": {}}
            for member, kind in LISTS.items()
            if kind in kinds and self.wanted.get(member) is True
        ]
        uris: object = self.wanted.get(RESOURCES)
        told += [_updated(uri) for uri in (uris if is_array(uris) else []) if isinstance(uri, str)]
        for each in told:
            each["params"]["_meta"] = {SUBSCRIPTION_ID: self.request["id"]}
        return told


@dataclass
class Conversation:
    """What has been agreed upon.

    Attributes:
        initialize: The host's `initialize`; None where it has sent none.
        revision: The revision that was negotiated; None before that.
        is_initialized: Whether the host has said that it is ready for notifications.
        level: The level of `logging/setLevel`; None where the host has set none.
        subscribed: The URIs of `resources/subscribe`, in their order.
        streams: The `subscriptions/listen` requests that are open, by id.
        meta: The `_meta` by which the host has said last, in the stateless era, who it is; None where it never has.
    """

    initialize: Json | None = None
    revision: str | None = None
    is_initialized: bool = False
    level: object = None
    subscribed: dict[str, None] = field(default_factory=dict[str, None])
    streams: dict[RequestId, Stream] = field(default_factory=dict[RequestId, Stream])
    meta: Json | None = None

    @property
    def may_be_told(self) -> bool:
        """Whether the host takes notifications and answers to what a new process is asked in its name."""
        return self.is_initialized if self.initialize is not None else self.meta is not None

    @property
    def wanted_revision(self) -> str:
        """The revision that the host wants, where a server knows it, or else the newest of its era."""
        wanted: object = params_of(self.initialize or {}).get("protocolVersion")
        return wanted if isinstance(wanted, str) and wanted in HANDSHAKE else LATEST_HANDSHAKE

    @property
    def opening(self) -> Json:
        """The params by which another process is told the host's `initialize`, at the negotiated revision."""
        params = params_of(self.initialize or {})
        return params if self.revision is None else {**params, "protocolVersion": self.revision}

    def params(self, params: Json | None = None) -> Json:
        """Return the params of a request that is made in the host's name."""
        if self.initialize is not None or self.meta is None:
            return params or {}
        return {**(params or {}), "_meta": self.meta}

    def hear(self, request: Json) -> None:
        """Take note of who asks, where a request says so."""
        if is_stateless(request):
            self.meta = {name: value for name, value in meta_of(request).items() if name != "progressToken"}

    def agree(self, request: Json) -> None:
        """Take note of what a request has changed, which has been answered without an error."""
        params = params_of(request)
        uri: object = params.get("uri")
        method = request["method"]
        if method == "logging/setLevel":
            self.level = params.get("level")
        elif method == "resources/subscribe" and isinstance(uri, str):
            self.subscribed[uri] = None
        elif method == "resources/unsubscribe" and isinstance(uri, str):
            self.subscribed.pop(uri, None)

    def changes(self, kinds: set[str]) -> list[Json]:
        """Return the notifications that tell the host of a new process.

        Args:
            kinds: The lists that have changed: `tools`, `resources`, `prompts`.
        """
        told: list[Json] = []
        if self.is_initialized:
            told += [
                {"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"} for kind in sorted(kinds)
            ]
            told += [_updated(uri) for uri in self.subscribed]
        for stream in self.streams.values():
            told += stream.changes(kinds)
        return told


def _updated(uri: str) -> Json:
    return {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
