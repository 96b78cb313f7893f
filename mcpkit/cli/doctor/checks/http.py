"""What Streamable HTTP demands: statuses, headers, sessions, and instances that know each other's."""

from __future__ import annotations

from typing import Final

from ....protocol.revisions import LATEST
from ..findings.finding import Seen
from ..patients.patient import there
from ..patients.web import ACCEPTED, EVENTS
from ..patients.web_conversation import WebConversation
from ..patients.web_patient import WebPatient
from . import revisions as judging

_ASKED: Final = 8
_OPENING: Final = 5.0


async def revisions(patient: WebPatient) -> Seen:
    """Ask for each revision, each in a session of its own."""
    stateless = WebConversation(patient.web, {}, LATEST)
    seen = await judging.of_web(patient, patient.initialized, await stateless.ask("server/discover"))
    if patient.discovered is not None:
        patient.listener = stateless
        if patient.opened is None:
            patient.conversation = stateless
    return seen


async def affinity(patient: WebPatient) -> Seen:
    """Send requests of one session over connections of their own, which may reach several instances."""
    seen = Seen("several connections")
    session = patient.session
    if session is None or patient.session_id is None:
        seen.summary = "no sessions"
        return seen
    replies = [await session.reply("ping", is_new=True) for _ in range(_ASKED)]
    failed = [reply for reply in replies if reply.status in {400, 404}]
    if failed:
        session.tries = 2 * _ASKED
        patient.is_divided = True
        return seen.find("no-affinity", failed=len(failed), asked=_ASKED, status=failed[0].status)
    seen.summary = f"{_ASKED} connections, one session"
    return seen


async def statuses(patient: WebPatient) -> Seen:
    """Send what servers have to answer by a status."""
    seen = Seen("statuses")
    web, session = patient.web, patient.session
    if session is not None:
        if patient.told.status != 202:
            seen.find("notification-status", answer=patient.told)
        if "MCP-Protocol-Version" in session.headers:
            reply = await session.reply("ping", more={"MCP-Protocol-Version": "1999-12-31"})
            if reply.status not in {400, 404}:
                seen.find("revision-header", status=reply.status)
        if patient.session_id is not None:
            reply = await session.reply("ping", more={"Mcp-Session-Id": "mcpkit-a-session-of-nobody"})
            if reply.status != 404:
                seen.find("unknown-session", status=reply.status)
    headers = ACCEPTED if session is None else {**ACCEPTED, **session.headers}
    reply = await web.send("POST", headers, b'{"jsonrpc": "2.0", "id": ')
    if reply.status not in {400, 404}:
        seen.find("malformed-status", answer=reply)
    seen.summary = "notifications, sessions, revisions, malformed messages"
    return seen


async def streams(patient: WebPatient) -> Seen:
    """Open streams, and see whether what is sent on them comes at once."""
    seen = Seen("streams")
    told: list[str] = []
    session = patient.session
    if session is not None:
        reply = await patient.send_in_session("GET", {"Accept": EVENTS}, min(_OPENING, patient.patience))
        if reply.kind == "time":
            patient.has_buffered_events = True
            seen.find("buffered-events", what="The start of the GET stream")
        elif (reply.status, reply.type) == (200, EVENTS):
            told.append("GET opens a stream")
        elif reply.status != 405:
            seen.find("get-status", answer=reply)
        else:
            told.append("no stream with GET")
    if patient.listener is not None:
        answer = await patient.listener.listen({"notifications": {"toolsListChanged": True}}, _OPENING)
        if answer.problem.startswith("no response within"):
            patient.has_buffered_events = True
            seen.find("buffered-events", what="The acknowledgement of subscriptions/listen")
        elif answer.result is not None:
            told.append("subscriptions/listen is acknowledged immediately")
    seen.summary = ", ".join(told)
    return seen


async def leave(patient: WebPatient) -> Seen:
    """End the session, and see whether it has ended."""
    seen = Seen("end of the session")
    if patient.session_id is None:
        return seen
    session = there(patient.session)
    reply = await patient.send_in_session("DELETE", {})
    if reply.status == 405:
        seen.summary = "the server does not support DELETE, which is optional"
    elif not 200 <= reply.status < 300:
        seen.find("delete-fails", status=reply.status)
    else:
        again = await session.reply("ping")
        if 200 <= again.status < 300:
            seen.find("session-goes-on", status=reply.status)
        seen.summary = "by DELETE"
    return seen
