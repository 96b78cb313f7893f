"""Whether a URL is reached, by which way, and what is wrong with its machine."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urljoin, urlsplit

from ....client.authorization.checking.check import check_authorization
from ....protocol.jsonrpc import is_object
from ....protocol.revisions import LATEST, LATEST_HANDSHAKE
from ...exit_status import Status
from ..findings.finding import Finding, Seen, quoted
from ..patients.conversation import opening
from ..patients.patient import there
from ..patients.web import EVENTS, Reply
from ..patients.web_conversation import SseConversation, WebConversation
from ..patients.web_patient import WebPatient
from . import revisions

_MOST_REDIRECTS: Final = 3
_SLOW: Final = 15.0
_SKEW: Final = 60.0
_DAY: Final = 86_400
_SOON: Final = 14 * _DAY
_KINDS: Final = {"dns": "dns", "refused": "refused", "tls": "tls", "closed": "closed"}


async def reach(patient: WebPatient) -> Seen:
    """Send the first request, wherever redirects lead it."""
    seen = Seen("first response")
    if patient.is_sse and await _is_sse(patient):
        seen.summary = f"HTTP+SSE, after {patient.first.seconds:.1f} s"
        return seen
    reply = await patient.initialize(is_kept=True)
    for _ in range(_MOST_REDIRECTS):
        if not 300 <= reply.status < 400 or not _follow(patient, seen, reply):
            break
        reply = await patient.initialize(is_kept=True)
    patient.first = reply
    if not reply.status:
        patient.status = Status.NOT_REACHED
        return _unreached(patient, seen, reply)
    if reply.status in {401, 403}:
        return await _to_log_in(patient, seen)
    if reply.seconds > _SLOW:
        seen.find("slow-start", seconds=reply.seconds)
    if reply.message is not None:
        await patient.enter(reply)
    if 300 <= reply.status < 400:
        seen.is_end = True
        return seen
    if patient.opened is None and not await _is_otherwise(patient):
        patient.status = Status.NOT_REACHED
        return _not_spoken(seen, reply)
    session = reply.headers.get("mcp-session-id", "none")
    if not session or not all("!" <= letter <= "~" for letter in session):
        seen.find("session-id", id=quoted(session))
    way = "HTTP+SSE" if patient.sse is not None else "HTTP"
    seen.summary = f"{way}, after {reply.seconds:.1f} s{revisions.server_of(patient.opened)}"
    return seen


def _not_spoken(seen: Seen, reply: Reply) -> Seen:
    if reply.status == 200 and reply.type not in {"application/json", EVENTS}:
        return seen.find("content-type", type=quoted(reply.type or "none"))
    if reply.status >= 500:
        return seen.find("server-error", status=reply.status)
    return seen.find("no-mcp", answer=reply)


def _follow(patient: WebPatient, seen: Seen, reply: Reply) -> bool:
    """Tell of a redirect, and say whether it was followed."""
    target = urljoin(patient.url, reply.headers.get("location", ""))
    before, after = urlsplit(patient.url), urlsplit(target)
    if before.scheme == "https" and after.scheme == "http":
        seen.find("redirect-downgrade", target=quoted(target, 200))
    else:
        code = "redirect-kept" if reply.status in {307, 308} else "redirect"
        seen.find(code, status=reply.status, target=quoted(target, 200))
    if after.scheme not in {"http", "https"} or (patient.says_who_asks and after.hostname != before.hostname):
        return False
    if target == patient.url:
        return False
    patient.url = target
    return True


def _unreached(patient: WebPatient, seen: Seen, reply: Reply) -> Seen:
    if reply.kind == "time":
        return seen.find("no-answer", seconds=reply.seconds, last="")
    if reply.kind == "dns":
        return seen.find("dns", host=urlsplit(patient.url).hostname)
    return seen.find(reply.kind, problem=reply.problem)


async def _is_otherwise(patient: WebPatient) -> bool:
    """Say whether the server speaks the stateless era alone, or HTTP with SSE."""
    if (await WebConversation(patient.web, {}, LATEST).ask("server/discover")).result is not None:
        return True
    return await _is_sse(patient)


async def _is_sse(patient: WebPatient) -> bool:
    """Say whether the server speaks HTTP with SSE, and open a stream if so."""
    sse = patient.sse = SseConversation(patient.web)
    patient.first = reply = await sse.open()
    if reply.type != EVENTS:
        patient.sse = None
        return False
    return True


async def _to_log_in(patient: WebPatient, seen: Seen) -> Seen:
    """Look at how somebody logs in, where only who has logged in may ask."""
    seen.findings += await _of_authorization(patient)
    seen.is_end = True
    patient.status = Status.FINDINGS if seen.findings else Status.NOT_AUTHORIZED
    codes = {each.code for each in seen.findings}
    way = f"Run mcpkit doctor {patient.url} --token TOKEN, as the server names no authorization server"
    if "no-metadata" not in codes:
        way = f"Run mcpkit auth login {patient.url}"
    seen.summary = (
        f"HTTP {patient.first.status}: the server rejected the token"
        if patient.says_who_asks
        else f"HTTP {patient.first.status}: the other checks need authorization. {way}"
    )
    return seen


async def authorization(patient: WebPatient) -> Seen:
    """Look at how somebody logs in, where a token goes along."""
    seen = Seen("authorization")
    if patient.says_who_asks:
        seen.findings += await _of_authorization(patient)
        seen.summary = "checked without a token"
    return seen


_BY_NO_METADATA: Final = frozenset({"challenge-without-metadata", "sse-metadata", "march-foreign-issuer"})
"""Findings that follow from missing protected resource metadata."""


async def _of_authorization(patient: WebPatient) -> list[Finding]:
    """Return what keeps clients from a login; of a server without metadata one finding, with the other way in."""
    found = await check_authorization(patient.url, timeout=patient.patience)
    findings = [
        Finding(each.code, each.severity, each.why, each.cure) for each in found if each.severity != "note"
    ]
    if not any(each.code == "no-metadata" for each in findings):
        return findings
    return [
        replace(
            each,
            cure=f"configure a token in each client (--token TOKEN here); to support logins, {each.cure}",
        )
        if each.code == "no-metadata"
        else each
        for each in findings
        if each.code not in _BY_NO_METADATA
    ]


async def sse_stream(patient: WebPatient) -> Seen:
    """Look at the endpoint that a stream of HTTP with SSE names, and ask there."""
    seen = Seen("endpoint")
    sse = there(patient.sse)
    if not sse.endpoint:
        seen.is_end = True
        return seen.find("buffered-events", what="The endpoint event of HTTP+SSE")
    ours, named = urlsplit(patient.url), urlsplit(sse.endpoint)
    if (ours.scheme, ours.netloc) != (named.scheme, named.netloc):
        seen.is_end = True
        return seen.find("endpoint-origin", endpoint=quoted(sse.endpoint, 200))
    answer = await sse.ask("initialize", opening(LATEST_HANDSHAKE))
    if answer.result is None:
        patient.status = Status.NOT_REACHED
        return seen.find("no-mcp", answer=answer)
    patient.opened, patient.conversation = answer.result, sse
    await sse.tell("notifications/initialized")
    patient.revisions = [str(answer.result.get("protocolVersion"))]
    seen.summary = f"supports {patient.revisions[0]}{revisions.server_of(answer.result)}"
    return seen


async def machine(patient: WebPatient) -> Seen:
    """Look at the clock, and at the certificate."""
    seen = Seen("clock and certificate")
    date = patient.first.headers.get("date")
    told: list[str] = []
    if date is not None:
        with suppress(ValueError):
            told.append("the clock is right")
            ahead = parsedate_to_datetime(date).timestamp() - time.time()
            if abs(ahead) > _SKEW + patient.first.seconds:
                seen.find("clock", seconds=abs(ahead), way="ahead of" if ahead > 0 else "behind")
                told.pop()
    parts = urlsplit(patient.url)
    if parts.scheme == "https":
        until = await _certificate_ends(parts.hostname or "", parts.port or 443)
        if until is not None:
            day = datetime.fromtimestamp(until, timezone.utc).date()
            told.append(f"the certificate is valid until {day}")
            if until - time.time() < _SOON:
                seen.find("certificate-ends", host=parts.hostname, until=day)
    seen.summary = ", ".join(told)
    return seen


async def _certificate_ends(host: str, port: int) -> float | None:
    """Return when the certificate of a server ends; None where that cannot be seen."""
    try:
        _, writer = await asyncio.open_connection(host, port, ssl=ssl.create_default_context())
    except OSError:
        return None
    certificate: object = writer.get_extra_info("peercert")
    writer.close()
    ends = certificate.get("notAfter") if is_object(certificate) else None
    return ssl.cert_time_to_seconds(ends) if isinstance(ends, str) else None
