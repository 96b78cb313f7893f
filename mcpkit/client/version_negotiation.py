"""Negotiation of the protocol version (basic/versioning; basic/lifecycle up to 2025-11-25)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from .._utils.exceptions import (
    UNSUPPORTED_PROTOCOL_VERSION,
    AuthorizationError,
    ProtocolError,
    StatusError,
    TransportError,
)
from ..execution.coroutines import within
from ..protocol.jsonrpc import Json, is_array, is_object
from ..protocol.revisions import ALL, HANDSHAKE, LATEST, LATEST_HANDSHAKE, SERVER_INFO, STATELESS
from .client_session import ClientSession, NegotiationResult
from .transport_interface_and_memory import Transport, is_authorizing

DISCOVER_TIMEOUT: Final = 10.0
"""Seconds after which a server that has not answered `server/discover` is sent `initialize`, too.

It is half of `connect_timeout` where that is less, so that there is time for the answer.
"""

_UNSUPPORTED_STATUSES: Final = frozenset({400, 404, 405})
"""Statuses of HTTP servers that do not support the request."""

_STATELESS_ERRORS: Final = frozenset({-32020, -32021, UNSUPPORTED_PROTOCOL_VERSION})
"""Error codes that only servers of the stateless era send."""


class Negotiation:
    """Opens sessions: finds the transport and negotiates the protocol version.

    Args:
        revision: The protocol version to use; None for the newest that client and server know.
        timeout: The time limit in seconds; None for no limit.

    Raises:
        ValueError: There is no such protocol version.
    """

    def __init__(self, revision: str | None, timeout: float | None) -> None:
        if revision is not None and revision not in ALL:
            raise ValueError(f"unknown revision {revision!r}. Supported are {', '.join(ALL)}")
        self._revision = revision
        self._timeout = timeout
        self._transport: Transport | None = None  # the last one that worked
        self._known: NegotiationResult | None = None  # the last outcome: servers seldom change their era

    async def __call__(self, session: ClientSession) -> NegotiationResult:
        """Open a transport and negotiate with the server.

        Raises:
            TransportError: The server cannot be reached.
            ProtocolError: The server refuses, or has no protocol version in common with the client.
            TimeoutError: The server did not respond in time.
        """
        if self._timeout is None:
            return await self._try_transports(session)
        try:
            return await within(
                self._timeout, self._try_transports(session), lambda: is_authorizing(session.transport)
            )
        except TimeoutError:
            self._known = None  # it may be another server now
            raise TimeoutError(
                f"the server did not answer within {self._timeout:g} s while negotiating the revision. "
                "Raise Timeout(connect=...) if the server starts slowly"
            ) from None

    async def _try_transports(self, session: ClientSession) -> NegotiationResult:
        if self._transport is not None:
            try:
                return await self._negotiate_over(session, self._transport)
            except StatusError as error:
                if error.status not in _UNSUPPORTED_STATUSES or len(session.transports) == 1:
                    raise
                self._transport = self._known = None  # it is another server now
        errors: list[StatusError] = []
        for transport in session.transports:
            try:
                return await self._negotiate_over(session, transport)
            except StatusError as error:
                if error.status not in _UNSUPPORTED_STATUSES or len(session.transports) == 1:
                    raise
                errors.append(error)
        message = f"{errors[0]}. The transport of 2024-11-05 (HTTP+SSE) failed too: {errors[-1]}"
        raise StatusError(message, errors[0].status, may_have_begun=False) from errors[-1]

    async def _negotiate_over(self, session: ClientSession, transport: Transport) -> NegotiationResult:
        await session.use(transport)
        known = self._known
        if self._revision is not None:
            outcome = await _negotiate_pinned(session, self._revision, "as requested")
        elif known is not None and known.revision in HANDSHAKE:
            try:
                outcome = await _initialize(session, known.revision, known.reason)
            except (ProtocolError, StatusError) as error:
                if isinstance(error, StatusError) and error.status not in _UNSUPPORTED_STATUSES:
                    raise
                self._known = None  # it is another server now: negotiate anew
                return await self._negotiate_over(session, transport)
        else:
            outcome = await self._discover_first(session)
        self._transport, self._known = transport, outcome
        return outcome

    async def _discover_first(self, session: ClientSession) -> NegotiationResult:
        seconds = DISCOVER_TIMEOUT if self._timeout is None else min(DISCOVER_TIMEOUT, self._timeout / 2)
        try:
            return await _discover_or_initialize(session, seconds)
        except _HandshakeRequiredError as required:
            return await _initialize(session, LATEST_HANDSHAKE, str(required))
        except StatusError as error:
            if error.status not in _UNSUPPORTED_STATUSES:
                raise
            reason = f"the server answered server/discover with HTTP {error.status}"
        except TransportError as error:
            if getattr(session.transport, "is_http", False):
                raise
            await session.use(session.transport)
            reason = f"the server ended after server/discover: {error}"
        return await _initialize(session, LATEST_HANDSHAKE, reason)


class _HandshakeRequiredError(Exception):
    """The server requires `initialize`. The text is the reason."""


async def _negotiate_pinned(session: ClientSession, revision: str, reason: str) -> NegotiationResult:
    if revision in HANDSHAKE:
        return await _initialize(session, revision, reason)
    try:
        return await _discover(session, revision, reason)
    except _HandshakeRequiredError as required:
        message = f"the server does not support {revision}: {required}"
        raise ProtocolError(UNSUPPORTED_PROTOCOL_VERSION, message) from required.__cause__


async def _discover(
    session: ClientSession, revision: str, reason: str, *, is_again: bool = False
) -> NegotiationResult:
    session.use_revision(revision)
    try:
        result = await session.exchange("server/discover")
    except ProtocolError as error:
        if error.code != UNSUPPORTED_PROTOCOL_VERSION:
            if error.code in _STATELESS_ERRORS:
                raise
            raise _HandshakeRequiredError(
                f"the server answered server/discover with error {error.code}"
            ) from error
        supported = error.data.get("supported") if is_object(error.data) else None
        common = _newest(supported)
        # A server that refuses a revision and lists it as supported gets it once more.
        if common is None or (is_again and common in STATELESS):
            raise
    else:
        supported = result.get("supportedVersions")
        if not is_array(supported):
            raise _HandshakeRequiredError("the server answered server/discover without supportedVersions")
        if revision in supported:
            meta = result.get("_meta")
            info = meta.get(SERVER_INFO) if is_object(meta) else None
            return _outcome(revision, reason, info, result)
        common = _newest(supported)
        if common is None or common == revision:
            raise _no_common("supportedVersions", supported, ALL)
    if common in STATELESS:
        reason = reason if common == revision else "the newest revision that the server supports"
        return await _discover(session, common, reason, is_again=True)
    versions = ", ".join(map(str, supported or ()))
    raise _HandshakeRequiredError(f"the server supports only the protocol versions {versions}")


def _newest(supported: object) -> str | None:
    """Return the newest revision of a server's list that the client knows, or None."""
    return next((each for each in reversed(ALL) if is_array(supported) and each in supported), None)


def _no_common(member: str, offered: object, known: Sequence[str]) -> ProtocolError:
    offer = f"the server sent {offered!r:.200} as {member}, and this client supports {', '.join(known)}"
    return ProtocolError(
        UNSUPPORTED_PROTOCOL_VERSION, f"client and server have no revision in common: {offer}"
    )


async def _discover_or_initialize(session: ClientSession, seconds: float) -> NegotiationResult:
    """Send `server/discover`, and `initialize` as well where the answer does not come in time.

    Servers of the handshake era may ignore a request before `initialize`. Other servers only take long to start. The
    first answer counts.

    Args:
        session: The session to the server.
        seconds: How long to wait for the answer to `server/discover` alone.
    """
    discovering = asyncio.ensure_future(
        _discover(session, LATEST, "the newest revision that client and server support")
    )
    initializing: asyncio.Task[NegotiationResult] | None = None
    try:
        done, _ = await asyncio.wait((discovering,), timeout=seconds)
        while not done and is_authorizing(session.transport):  # the request waits for the authorization
            done, _ = await asyncio.wait((discovering,), timeout=seconds)
        if not done:
            reason = f"the server did not answer server/discover within {seconds:g} s"
            initializing = asyncio.ensure_future(_initialize(session, LATEST_HANDSHAKE, reason))
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
                task.exception()  # retrieved, as the outcome of the other task counts


async def _initialize(session: ClientSession, revision: str, reason: str) -> NegotiationResult:
    session.use_revision(revision)
    wire = session.wire
    params = {"protocolVersion": revision, "capabilities": wire.capabilities, "clientInfo": wire.info}
    result = await session.exchange("initialize", params)
    chosen, info = result.get("protocolVersion"), result.get("serverInfo")
    if chosen not in HANDSHAKE:
        raise _no_common("protocolVersion", chosen, HANDSHAKE)
    session.use_revision(chosen)
    try:
        await session.send(session.wire.notification("notifications/initialized"))
    except AuthorizationError:
        raise
    except StatusError as error:  # the transport is the right one, so that no other is tried
        message = f"the server answered initialize, but rejected notifications/initialized: {error}"
        raise TransportError(message, may_have_begun=False, may_pass=error.may_pass) from error
    if chosen != revision:
        reason = f"{reason}; the server answered initialize with {chosen}"
    return _outcome(chosen, reason, info, result)


def _outcome(revision: str, reason: str, info: object, result: Json) -> NegotiationResult:
    instructions = result.get("instructions") if isinstance(result.get("instructions"), str) else None
    return NegotiationResult(
        revision, reason, _object(info), _object(result.get("capabilities")), instructions
    )


def _object(value: object) -> Any:
    return value if is_object(value) else {}
