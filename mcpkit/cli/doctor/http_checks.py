"""Checks of a URL: reachability, authorization, sessions, statuses, streams, Origin and CORS."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urljoin, urlsplit

from ...auth.urls_and_discovery import is_loopback
from ...protocol.jsonrpc import is_object
from ...protocol.revisions import HANDSHAKE, LATEST_HANDSHAKE
from ..exit_status import Status
from ..findings import Finding
from .authorization_metadata import header_items
from .check_authorization import check_authorization
from .http_probe import ACCEPTED, EVENTS, HttpConnection, HttpProbe, HttpReply, SseConnection
from .protocol_checks import (
    FUTURE,
    CheckResult,
    compare_revisions,
    initialize_params,
    quoted,
    required,
    server_of,
    stateless_params,
)

_MAX_REDIRECTS: Final = 3
_SLOW: Final = 15.0
_MAX_CLOCK_SKEW: Final = 60.0
_EXPIRY_NOTICE: Final = 14 * 86_400


async def check_first_response(probe: HttpProbe, check: CheckResult) -> None:
    """Send the first request, and follow redirects."""
    if probe.is_sse and await _open_sse(probe):
        check.summary = f"HTTP+SSE, after {probe.first.seconds:.1f} s"
        return
    reply = await probe.initialize(keeps_session=True)
    for _ in range(_MAX_REDIRECTS):
        if not 300 <= reply.status < 400 or not _follow_redirect(probe, check, reply):
            break
        reply = await probe.initialize(keeps_session=True)
    probe.first = reply
    if not reply.status:
        _add_unusable(probe, check, reply)
        return
    if reply.status in {401, 403}:
        await _check_login_required(probe, check)
        return
    if reply.seconds > _SLOW:
        check.add_finding("slow-start", seconds=reply.seconds)
    if reply.message is not None:
        await probe.enter_session(reply)
    if 300 <= reply.status < 400:
        check.stops = True
        return
    if probe.initialize_result is None:  # a server of the stateless revisions or of HTTP+SSE alone
        discovered = await HttpConnection(probe, {}).request("server/discover", stateless_params())
        if discovered.result is None and not await _open_sse(probe):
            _add_unusable(probe, check, reply)
            return
    session = reply.headers.get("mcp-session-id", "none")
    if not session or not all("!" <= letter <= "~" for letter in session):
        check.add_finding("session-id", id=quoted(session))
    way = "HTTP+SSE" if probe.sse is not None else "HTTP"
    check.summary = f"{way}, after {reply.seconds:.1f} s{server_of(probe.initialize_result)}"


def _add_unusable(probe: HttpProbe, check: CheckResult, reply: HttpReply) -> None:
    """Add a finding for a missing response, or one that is not from an MCP server."""
    probe.status = Status.NOT_REACHED
    if reply.kind == "time":
        check.add_finding("no-answer", seconds=reply.seconds, last="")
    elif not reply.status:
        check.add_finding(reply.kind, host=urlsplit(probe.url).hostname, problem=reply.problem)
    elif reply.status == 200 and reply.type not in {"application/json", EVENTS}:
        check.add_finding("content-type", type=quoted(reply.type or "none"))
    elif reply.status >= 500:
        check.add_finding("server-error", status=reply.status)
    else:
        check.add_finding("no-mcp", answer=reply)


def _follow_redirect(probe: HttpProbe, check: CheckResult, reply: HttpReply) -> bool:
    """Add a finding for a redirect, and return whether it was followed."""
    target = urljoin(probe.url, reply.headers.get("location", ""))
    before, after = urlsplit(probe.url), urlsplit(target)
    if before.scheme == "https" and after.scheme == "http":
        check.add_finding("redirect-downgrade", target=quoted(target, 200))
    else:
        code = "redirect-kept" if reply.status in {307, 308} else "redirect"
        check.add_finding(code, status=reply.status, target=quoted(target, 200))
    if after.scheme not in {"http", "https"} or (probe.has_credentials and after.hostname != before.hostname):
        return False
    if target == probe.url:
        return False
    probe.url = target
    return True


async def _open_sse(probe: HttpProbe) -> bool:
    """Open an HTTP+SSE stream, and return whether the server supports that."""
    sse = SseConnection(probe)
    probe.first = await sse.open()
    probe.sse = sse if probe.first.type == EVENTS else None
    return probe.sse is not None


async def _check_login_required(probe: HttpProbe, check: CheckResult) -> None:
    """Check the authorization metadata of a server that requires a token."""
    check.findings += await _authorization_findings(probe, check.step)
    check.stops = True
    probe.status = Status.FINDINGS if check.findings else Status.NOT_AUTHORIZED
    if probe.has_credentials:
        reason = "the server rejected the token"
    elif any(each.code == "no-metadata" for each in check.findings):
        way = f"mcpkit doctor {probe.url} --token TOKEN, as the server names no authorization server"
        reason = f"the other checks need authorization. Run {way}"
    else:
        reason = f"the other checks need authorization. Run mcpkit auth login {probe.url}"
    check.summary = f"HTTP {probe.first.status}: {reason}"


async def check_login(probe: HttpProbe, check: CheckResult) -> None:
    """Check the authorization metadata if requests carry a token."""
    if probe.has_credentials:
        check.findings += await _authorization_findings(probe, check.step)
        check.summary = "checked without a token"


_CAUSED_BY_NO_METADATA: Final = {"challenge-without-metadata", "sse-metadata", "march-foreign-issuer"}
"""Findings that follow from missing protected resource metadata."""


async def _authorization_findings(probe: HttpProbe, step: str) -> list[Finding]:
    """Return findings that prevent a login; a server without metadata has one finding with a second fix."""
    found = await check_authorization(probe.url, timeout=probe.response_timeout)
    has_metadata = all(each.code != "no-metadata" for each in found)
    findings: list[Finding] = []
    for each in found:
        cure = each.cure
        if each.code == "no-metadata":
            cure = f"configure a token in each client (--token TOKEN here); to support logins, {cure}"
        if each.severity != "note" and (has_metadata or each.code not in _CAUSED_BY_NO_METADATA):
            findings.append(Finding(each.code, each.severity, step, each.why, cure))
    return findings


async def check_sse_endpoint(probe: HttpProbe, check: CheckResult) -> None:
    """Check the endpoint of an HTTP+SSE stream, and send `initialize` there."""
    sse = required(probe.sse)
    if not sse.endpoint:
        check.stops = True
        check.add_finding("buffered-events", what="The endpoint event of HTTP+SSE")
        return
    ours, named = urlsplit(probe.url), urlsplit(sse.endpoint)
    if (ours.scheme, ours.netloc) != (named.scheme, named.netloc):
        check.stops = True
        check.add_finding("endpoint-origin", endpoint=quoted(sse.endpoint, 200))
        return
    answer = await sse.request("initialize", initialize_params(LATEST_HANDSHAKE))
    if answer.result is None:
        probe.status = Status.NOT_REACHED
        check.add_finding("no-mcp", answer=answer)
        return
    probe.initialize_result, probe.send_request = answer.result, sse.request
    await sse.notify("notifications/initialized")
    probe.revisions = [str(answer.result.get("protocolVersion"))]
    check.summary = f"supports {probe.revisions[0]}{server_of(answer.result)}"


async def check_clock_and_certificate(probe: HttpProbe, check: CheckResult) -> None:
    """Check the clock and the certificate of the server."""
    date = probe.first.headers.get("date")
    notes: list[str] = []
    if date is not None:
        with suppress(ValueError):
            notes.append("the clock is right")
            ahead = parsedate_to_datetime(date).timestamp() - time.time()
            if abs(ahead) > _MAX_CLOCK_SKEW + probe.first.seconds:
                check.add_finding("clock", seconds=abs(ahead), way="ahead of" if ahead > 0 else "behind")
                notes.pop()
    parts = urlsplit(probe.url)
    if parts.scheme == "https":
        until = await _certificate_expiry(parts.hostname or "", parts.port or 443)
        if until is not None:
            day = datetime.fromtimestamp(until, timezone.utc).date()
            notes.append(f"the certificate is valid until {day}")
            if until - time.time() < _EXPIRY_NOTICE:
                check.add_finding("certificate-ends", host=parts.hostname, until=day)
    check.summary = ", ".join(notes)


async def _certificate_expiry(host: str, port: int) -> float | None:
    """Return the expiry time of the certificate of a server; None if it cannot be read."""
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=ssl.create_default_context())
    except OSError:
        return None
    certificate: object = writer.get_extra_info("peercert")
    writer.close()
    ends = certificate.get("notAfter") if is_object(certificate) else None
    return ssl.cert_time_to_seconds(ends) if isinstance(ends, str) else None


_REQUEST_COUNT: Final = 8
_STREAM_TIMEOUT: Final = 5.0


async def check_revisions(probe: HttpProbe, check: CheckResult) -> None:
    """Request each revision in a new session."""
    connection = HttpConnection(probe, {})
    discovered = await connection.request("server/discover", stateless_params())
    revisions = (*HANDSHAKE[:-1], FUTURE)
    answers = {revision: (await probe.initialize(revision)).answer for revision in revisions}
    compare_revisions(probe, check, answers, discovered)
    if probe.discover_result is not None:
        probe.listen = connection.listen
        if probe.initialize_result is None:
            probe.send_request = connection.request


async def check_affinity(probe: HttpProbe, check: CheckResult) -> None:
    """Send requests of one session over separate connections, which may reach several instances."""
    session = probe.session
    if session is None or probe.session_id is None:
        check.summary = "no sessions"
        return
    replies = [await session.reply("ping", is_new=True) for _ in range(_REQUEST_COUNT)]
    failed = [reply for reply in replies if reply.status in {400, 404}]
    if failed:
        session.tries = 2 * _REQUEST_COUNT
        probe.has_unshared_sessions = True
        count, status = len(failed), failed[0].status
        check.add_finding("no-affinity", failed=count, asked=_REQUEST_COUNT, status=status)
        return
    check.summary = f"{_REQUEST_COUNT} connections, one session"


async def check_statuses(probe: HttpProbe, check: CheckResult) -> None:
    """Send requests that require a certain HTTP status."""
    session = probe.session
    if session is not None:
        if probe.notification_reply.status != 202:
            check.add_finding("notification-status", answer=probe.notification_reply)
        if "MCP-Protocol-Version" in session.headers:
            reply = await session.reply("ping", more={"MCP-Protocol-Version": "1999-12-31"})
            if reply.status not in {400, 404}:
                check.add_finding("revision-header", status=reply.status)
        if probe.session_id is not None:
            reply = await session.reply("ping", more={"Mcp-Session-Id": "mcpkit-a-session-of-nobody"})
            if reply.status != 404:
                check.add_finding("unknown-session", status=reply.status)
    headers = ACCEPTED if session is None else {**ACCEPTED, **session.headers}
    reply = await probe.send("POST", headers, b'{"jsonrpc": "2.0", "id": ')
    if reply.status not in {400, 404}:
        check.add_finding("malformed-status", answer=reply)
    check.summary = "notifications, sessions, revisions, malformed messages"


async def check_streams(probe: HttpProbe, check: CheckResult) -> None:
    """Open streams, and check that events arrive at once."""
    notes: list[str] = []
    session = probe.session
    if session is not None:
        seconds = min(_STREAM_TIMEOUT, probe.response_timeout)
        reply = await session.send("GET", {"Accept": EVENTS}, seconds=seconds)
        if reply.kind == "time":
            probe.has_buffered_events = True
            check.add_finding("buffered-events", what="The start of the GET stream")
        elif (reply.status, reply.type) == (200, EVENTS):
            notes.append("GET opens a stream")
        elif reply.status != 405:
            check.add_finding("get-status", answer=reply)
        else:
            notes.append("no stream with GET")
    if probe.listen is not None:
        answer = await probe.listen({"notifications": {"toolsListChanged": True}}, _STREAM_TIMEOUT)
        if answer.problem.startswith("no response within"):
            probe.has_buffered_events = True
            check.add_finding("buffered-events", what="The acknowledgement of subscriptions/listen")
        elif answer.result is not None:
            notes.append("subscriptions/listen is acknowledged immediately")
    check.summary = ", ".join(notes)


async def check_session_end(probe: HttpProbe, check: CheckResult) -> None:
    """Delete the session, and check that it has ended."""
    if probe.session_id is None:
        return
    session = required(probe.session)
    reply = await session.send("DELETE", {})
    if reply.status == 405:
        check.summary = "the server does not support DELETE, which is optional"
    elif not 200 <= reply.status < 300:
        check.add_finding("delete-fails", status=reply.status)
    else:
        again = await session.reply("ping")
        if 200 <= again.status < 300:
            check.add_finding("session-goes-on", status=reply.status)
        check.summary = "by DELETE"


_FOREIGN_HOST: Final = "mcpkit-doctor.example"
_INSPECTOR_ORIGIN: Final = "http://localhost:6274"
"""MCP Inspector."""
_REQUEST_HEADERS: Final = ("content-type", "mcp-protocol-version", "mcp-session-id", "last-event-id")


async def check_origins(probe: HttpProbe, check: CheckResult) -> None:
    """Send a foreign Origin and Host to a server in the local network."""
    host = urlsplit(probe.url).hostname or ""
    if not _is_local(host):
        check.summary = "not checked: the server is not in the local network"
        return
    status = (await _send_foreign(probe, {"Origin": f"https://{_FOREIGN_HOST}"})).status
    if 200 <= status < 300:
        check.add_finding("foreign-origin", status=status)
    if is_loopback(host):
        status = (await _send_foreign(probe, {"Host": _FOREIGN_HOST})).status
        if 200 <= status < 300:
            check.add_finding("foreign-host", status=status)
    check.summary = "foreign origins and hosts are rejected"


async def _send_foreign(probe: HttpProbe, headers: Mapping[str, str]) -> HttpReply:
    if probe.sse is not None:
        return await probe.send("GET", {"Accept": EVENTS, **headers})
    return await probe.initialize(more=headers)


async def check_cors(probe: HttpProbe, check: CheckResult) -> None:
    """Send a CORS preflight and a request as MCP Inspector does; if its origin is allowed, all headers must be."""
    sent = (*_REQUEST_HEADERS, "authorization") if probe.has_credentials else _REQUEST_HEADERS
    asked = {"Origin": _INSPECTOR_ORIGIN, "Access-Control-Request-Method": "POST"}
    reply = await probe.send("OPTIONS", {**asked, "Access-Control-Request-Headers": ",".join(sent)})
    if not _is_allowed(reply):
        check.summary = f"{_INSPECTOR_ORIGIN} is not allowed"
        return
    allowed = header_items(reply.headers, "access-control-allow-headers")
    not_by_star = {"authorization"} if "*" in allowed else set(sent)  # `*` stands for all other headers
    if missing := [name for name in sent if name not in allowed and name in not_by_star]:
        check.add_finding("cors-preflight", page=_INSPECTOR_ORIGIN, names=", ".join(missing))
    answer = await probe.initialize(more={"Origin": _INSPECTOR_ORIGIN})
    if not _is_allowed(answer):
        check.add_finding("cors-answer", page=_INSPECTOR_ORIGIN)
    elif "mcp-session-id" in answer.headers:
        exposed = header_items(answer.headers, "access-control-expose-headers")
        if not {"mcp-session-id", "*"} & exposed:
            check.add_finding("cors-exposed", page=_INSPECTOR_ORIGIN, names="Mcp-Session-Id")
    check.summary = f"{_INSPECTOR_ORIGIN} is allowed"


def _is_allowed(reply: HttpReply) -> bool:
    origin = reply.headers.get("access-control-allow-origin")
    return 200 <= reply.status < 300 and origin in {"*", _INSPECTOR_ORIGIN}


def _is_local(host: str) -> bool:
    """Return whether a host is this machine or in the local network."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_private
    return is_loopback(host)
