"""Negotiation of the protocol version (basic/versioning; basic/lifecycle up to 2025-11-25)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from ..._utils.exceptions import (
    UNSUPPORTED_PROTOCOL_VERSION,
    AuthorizationError,
    ProtocolError,
    StatusError,
    TransportError,
)
from ..._utils.option_checks import check_seconds
from ...execution.coroutines import within
from ...protocol.jsonrpc import Json, is_array, is_object
from ...protocol.revisions import ALL, HANDSHAKE, LATEST, LATEST_HANDSHAKE, SERVER_INFO, STATELESS
from .agreed import Negotiated
from .link import Link
from .transport import Transport, is_authorizing

PROBE: Final = 10.0
"""Seconds after which a server that has not answered `server/discover` is sent `initialize`, too.

It is half of `connect_timeout` where that is less, so that there is time for the answer.
"""

_NOT_HERE: Final = frozenset({400, 404, 405})
"""Statuses of HTTP servers that do not support the request."""

_ANSWERS: Final = frozenset({-32020, -32021, UNSUPPORTED_PROTOCOL_VERSION})
"""Error codes that only servers of the stateless era send."""


class Negotiation:
    """Opens links and negotiates the protocol version.

    Args:
        revision: The protocol version to use; None for the newest that client and server know.
        timeout: The time limit in seconds; None for no limit.

    Raises:
        ValueError: There is no such protocol version.
    """

    def __init__(self, revision: str | None, timeout: float | None) -> None:
        if revision is not None and revision not in ALL:
            raise ValueError(f"unknown revision {revision!r}. Supported are {', '.join(ALL)}")
        check_seconds("connect_timeout", timeout, may_be_none=True)
        self._revision = revision
        self._timeout = timeout
        self._transport: Transport | None = None  # that has been found to be the way
        self._known: Negotiated | None = None  # what was agreed upon last: servers seldom change their era

    async def __call__(self, link: Link) -> Negotiated:
        """Open a transport and negotiate with the server.

        Raises:
            TransportError: The server cannot be reached.
            ProtocolError: The server refuses, or has no protocol version in common with the client.
            TimeoutError: The server did not respond in time.
        """
        if self._timeout is None:
            return await self._first_way(link)
        try:
            return await within(self._timeout, self._first_way(link), lambda: is_authorizing(link.transport))
        except TimeoutError:
            self._known = None  # the server may have become another one
            raise TimeoutError(
                f"the server did not answer within {self._timeout:g} s while negotiating the revision. "
                "Raise Timeout(connect=...) if the server starts slowly"
            ) from None

    async def _first_way(self, link: Link) -> Negotiated:
        if self._transport is not None:
            try:
                return await self._by(link, self._transport)
            except StatusError as error:
                if error.status not in _NOT_HERE or len(link.transports) == 1:
                    raise
                self._transport = self._known = None  # the server has become another one
        first: StatusError | None = None
        for way in link.transports:
            try:
                return await self._by(link, way)
            except StatusError as error:
                is_last = way is link.transports[-1]
                if error.status not in _NOT_HERE or (is_last and first is None):
                    raise
                if is_last:
                    assert first is not None
                    message = f"{first}. The transport of 2024-11-05 (HTTP+SSE) failed too: {error}"
                    raise StatusError(message, first.status, may_have_begun=False) from error
                first = first or error
        raise AssertionError("the client has no transport to try. This is a bug of mcpkit, please report it")

    async def _by(self, link: Link, transport: Transport) -> Negotiated:
        await link.use(transport)
        known = self._known
        if self._revision is not None:
            agreed = await _pinned(link, self._revision, "as requested")
        elif known is not None and known.revision in HANDSHAKE:
            try:
                agreed = await _initialize(link, known.revision, known.reason)
            except (ProtocolError, StatusError) as error:
                if isinstance(error, StatusError) and error.status not in _NOT_HERE:
                    raise
                self._known = None  # the server has become another one: find out anew
                return await self._by(link, transport)
        else:
            agreed = await self._probe(link)
        self._transport, self._known = transport, agreed
        return agreed

    async def _probe(self, link: Link) -> Negotiated:
        seconds = PROBE if self._timeout is None else min(PROBE, self._timeout / 2)
        try:
            return await _discover_or_initialize(link, seconds)
        except _HandshakeWantedError as wanted:
            return await _initialize(link, LATEST_HANDSHAKE, wanted.reason)
        except StatusError as error:
            if error.status not in _NOT_HERE:
                raise
            reason = f"the server answered server/discover with HTTP {error.status}"
        except TransportError as error:
            if getattr(link.transport, "is_http", False):
                raise
            await link.use(link.transport)
            reason = f"the server ended after server/discover: {error}"
        return await _initialize(link, LATEST_HANDSHAKE, reason)


class _HandshakeWantedError(Exception):
    """The server requires `initialize`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def _pinned(link: Link, revision: str, reason: str) -> Negotiated:
    if revision in HANDSHAKE:
        return await _initialize(link, revision, reason)
    try:
        return await _discover(link, revision, reason)
    except _HandshakeWantedError as wanted:
        message = f"the server does not support {revision}: {wanted}"
        raise ProtocolError(UNSUPPORTED_PROTOCOL_VERSION, message) from wanted.__cause__


async def _discover(link: Link, revision: str, reason: str, *, is_again: bool = False) -> Negotiated:
    link.speak(revision)
    try:
        result = await link.exchange("server/discover")
    except ProtocolError as error:
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            if error.code in _ANSWERS:
                raise
            raise _HandshakeWantedError(
                f"the server answered server/discover with error {error.code}"
            ) from error
        supported = error.data.get("supported") if is_object(error.data) else None
        common = _newest(supported)
        # Where it is the revision that was refused, the server is taken at its word: it is tried once more.
        if common is None or (is_again and common in STATELESS):
            raise
    else:
        supported = result.get("supportedVersions")
        if not is_array(supported):
            raise _HandshakeWantedError("the server answered server/discover without supportedVersions")
        if revision in supported:
            meta = result.get("_meta")
            info = meta.get(SERVER_INFO) if is_object(meta) else None
            return _negotiated(revision, reason, info, result)
        common = _newest(supported)
        if common is None or common == revision:
            raise _no_common("supportedVersions", supported, ALL)
    if common in STATELESS:
        reason = reason if common == revision else "the newest revision that the server supports"
        return await _discover(link, common, reason, is_again=True)
    versions = ", ".join(map(str, supported or ()))
    raise _HandshakeWantedError(f"the server supports only the protocol versions {versions}")


def _newest(supported: object) -> str | None:
    """Return the newest revision of a server's list that the client knows, or None."""
    return next((each for each in reversed(ALL) if is_array(supported) and each in supported), None)


def _no_common(member: str, offered: object, known: Sequence[str]) -> ProtocolError:
    offer = f"the server sent {offered!r:.200} as {member}, and this client supports {', '.join(known)}"
    return ProtocolError(
        UNSUPPORTED_PROTOCOL_VERSION, f"client and server have no revision in common: {offer}"
    )


async def _discover_or_initialize(link: Link, seconds: float) -> Negotiated:
    """Send `server/discover`, and `initialize` as well where the answer does not come in time.

    Servers of the handshake era may ignore a request before `initialize`. Other servers only take long to start. The
    first answer counts.

    Args:
        link: The link to the server.
        seconds: How long to wait for the answer to `server/discover` alone.
    """
    discovering = asyncio.ensure_future(
        _discover(link, LATEST, "the newest revision that client and server support")
    )
    initializing: asyncio.Task[Negotiated] | None = None
    try:
        done, _ = await asyncio.wait((discovering,), timeout=seconds)
        while not done and is_authorizing(link.transport):  # the server has not been asked yet
            done, _ = await asyncio.wait((discovering,), timeout=seconds)
        if not done:
            reason = f"the server did not answer server/discover within {seconds:g} s"
            initializing = asyncio.ensure_future(_initialize(link, LATEST_HANDSHAKE, reason))
            await asyncio.wait((discovering, initializing), return_when=asyncio.FIRST_COMPLETED)
            if not discovering.done() and (problem := initializing.exception()) is not None:
                if isinstance(problem, StatusError):
                    raise problem  # there may be another transport
                await asyncio.wait((discovering,))
            if not discovering.done() or discovering.exception() is not None:
                return await initializing
        return await discovering
    finally:
        for task in (discovering, initializing):
            if task is not None and not task.cancel():
                task.exception()  # retrieved, where the other one counts


async def _initialize(link: Link, revision: str, reason: str) -> Negotiated:
    link.speak(revision)
    params: Json = {
        "protocolVersion": revision,
        "capabilities": link.wire.capabilities,
        "clientInfo": link.wire.info,
    }
    result = await link.exchange("initialize", params)
    agreed, info = result.get("protocolVersion"), result.get("serverInfo")
    if agreed not in HANDSHAKE:
        raise _no_common("protocolVersion", agreed, HANDSHAKE)
    link.speak(agreed)
    try:
        await link.send(link.wire.notification("notifications/initialized"))
    except AuthorizationError:
        raise
    except StatusError as error:  # the transport is the right one, so that no other is tried
        message = f"the server answered initialize, but rejected notifications/initialized: {error}"
        raise TransportError(message, may_have_begun=False, may_pass=error.may_pass) from error
    if agreed != revision:
        reason = f"{reason}; the server answered initialize with {agreed}"
    return _negotiated(agreed, reason, info, result)


def _negotiated(revision: str, reason: str, info: object, result: Json) -> Negotiated:
    capabilities, instructions = result.get("capabilities"), result.get("instructions")
    return Negotiated(
        revision,
        reason,
        info if is_object(info) else {},
        capabilities if is_object(capabilities) else {},
        instructions if isinstance(instructions, str) else None,
    )
