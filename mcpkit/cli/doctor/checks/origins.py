"""Who may ask: pages of other sites, other names of this machine, and pages that are meant to."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from ....auth.urls import is_loopback
from ..findings.finding import Seen
from ..patients.web import EVENTS, Reply
from ..patients.web_patient import WebPatient

_FOREIGN: Final = "mcpkit-doctor.example"
_PAGE: Final = "http://localhost:6274"
"""MCP Inspector."""
_SENT: Final = ("content-type", "mcp-protocol-version", "mcp-session-id", "last-event-id")


async def foreign(patient: WebPatient) -> Seen:
    """Ask as a page of another site would, and by another name, where the server is not on the internet."""
    seen = Seen("Origin and Host")
    host = urlsplit(patient.url).hostname or ""
    if not _is_near(host):
        seen.summary = "not checked: the server is not in the local network"
        return seen
    status = (await _asked(patient, {"Origin": f"https://{_FOREIGN}"})).status
    if 200 <= status < 300:
        seen.find("foreign-origin", status=status)
    if is_loopback(host):
        status = (await _asked(patient, {"Host": _FOREIGN})).status
        if 200 <= status < 300:
            seen.find("foreign-host", status=status)
    seen.summary = "foreign origins and hosts are rejected"
    return seen


async def _asked(patient: WebPatient, headers: Mapping[str, str]) -> Reply:
    if patient.sse is not None:
        return await patient.web.send("GET", {"Accept": EVENTS, **headers})
    return await patient.initialize(more=headers)


async def cors(patient: WebPatient) -> Seen:
    """Ask as a page of MCP Inspector would: where pages may ask, they need all that it takes."""
    seen = Seen("CORS")
    sent = (*_SENT, "authorization") if patient.says_who_asks else _SENT
    asked = {"Origin": _PAGE, "Access-Control-Request-Method": "POST"}
    reply = await patient.web.send("OPTIONS", {**asked, "Access-Control-Request-Headers": ",".join(sent)})
    if not _allows(reply):
        seen.summary = f"{_PAGE} is not allowed"
        return seen
    allowed = _names(reply, "access-control-allow-headers")
    if missing := [
        name for name in sent if name not in allowed and ("*" not in allowed or name == "authorization")
    ]:
        seen.find("cors-preflight", page=_PAGE, names=", ".join(missing))
    answer = await patient.initialize(more={"Origin": _PAGE})
    if not _allows(answer):
        seen.find("cors-answer", page=_PAGE)
    elif "mcp-session-id" in answer.headers:
        exposed = _names(answer, "access-control-expose-headers")
        if not {"mcp-session-id", "*"} & exposed:
            seen.find("cors-exposed", page=_PAGE, names="Mcp-Session-Id")
    seen.summary = f"{_PAGE} is allowed"
    return seen


def _allows(reply: Reply) -> bool:
    return 200 <= reply.status < 300 and reply.headers.get("access-control-allow-origin") in {"*", _PAGE}


def _names(reply: Reply, header: str) -> set[str]:
    return {name.strip().lower() for name in reply.headers.get(header, "").split(",")}


def _is_near(host: str) -> bool:
    """Say whether a host is this machine, or one of its network."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_private
    return is_loopback(host)
