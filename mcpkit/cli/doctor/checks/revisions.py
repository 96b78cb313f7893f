"""Which revisions are spoken: each is asked for, an old one, and one that nobody has written yet."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from ....protocol.jsonrpc import Json, is_array, is_object
from ....protocol.revisions import ALL, HANDSHAKE, LATEST, LATEST_HANDSHAKE
from ..findings.finding import Seen, quoted
from ..patients.conversation import Answer, Stateless, opening, stateless
from ..patients.patient import Patient, there
from ..patients.process_patient import ProcessPatient

_FUTURE: Final = "2099-12-31"
_PROBING: Final = 5.0


async def of_process(patient: ProcessPatient) -> Seen:
    """Ask a second process for each revision: first by `server/discover`, as clients of 2026-07-28 do."""
    probe = patient.start()
    discovered = await probe.ask("server/discover", stateless(LATEST), seconds=patient.first_patience)
    seen = Seen("revisions")
    fresh = True

    async def initialized(revision: str) -> Answer:
        nonlocal probe, fresh
        answer = await probe.ask("initialize", opening(revision))
        if answer.result is None and not fresh:  # it may take one for each process
            probe = patient.start()
            answer = await probe.ask("initialize", opening(revision), seconds=patient.first_patience)
        fresh = False
        return answer

    first = await initialized(LATEST_HANDSHAKE)
    if discovered.result is None and discovered.error is None:
        seen.find("discover-silent" if first.result is not None else "discover-ends")
        if first.result is None:
            probe = patient.start()
    answers = {LATEST_HANDSHAKE: first if patient.opened is None else Answer(patient.opened)}
    for revision in (*HANDSHAKE[:-1], _FUTURE):
        answers[revision] = await initialized(revision)
    _judge(patient, seen, answers, discovered)
    if patient.discovered is not None:
        patient.listener = Stateless(patient.start(), LATEST)
    if patient.opened is not None:
        patient.conversation = patient.main
    elif patient.discovered is not None:
        patient.conversation = Stateless(there(patient.main), LATEST)
    return seen


async def of_web(patient: Patient, asked: Callable[[str], Awaitable[Answer]], discovered: Answer) -> Seen:
    """Ask a server at a URL for each revision.

    Args:
        patient: The server.
        asked: Asks for a revision of the handshake era, in a session of its own.
        discovered: What `server/discover` was answered with.
    """
    seen = Seen("revisions")
    answers = {revision: await asked(revision) for revision in (*HANDSHAKE[:-1], _FUTURE)}
    if patient.opened is not None:
        answers[LATEST_HANDSHAKE] = Answer(patient.opened)
    _judge(patient, seen, answers, discovered)
    return seen


def _judge(patient: Patient, seen: Seen, answers: dict[str, Answer], discovered: Answer) -> None:
    """Say what is spoken, and what is wrong with the answers."""
    supported = None if discovered.result is None else discovered.result.get("supportedVersions")
    spoken = [each for each in ALL if is_array(supported) and each in supported]
    if spoken and LATEST in spoken:
        patient.discovered = discovered.result
    offered: set[str] = set()
    for asked, answer in answers.items():
        version = None if answer.result is None else answer.result.get("protocolVersion")
        if version == asked == _FUTURE:
            seen.find("echoed-revision", asked=asked)
        elif isinstance(version, str) and version in ALL:
            offered.add(version)
        elif answer.result is not None:
            seen.find("unknown-revision", answer=quoted(str(version)))
    patient.revisions = [each for each in ALL if each in offered or each in spoken]
    if offered:
        for asked, answer in answers.items():
            if answer.result is None:
                seen.find("no-common-revision", asked=asked, answer=answer)
    if not patient.revisions:
        seen.is_end = True
        if not seen.findings:
            seen.find("no-mcp", answer=answers.get(LATEST_HANDSHAKE, discovered))
        return
    seen.summary = f"supports {', '.join(patient.revisions)}"


def server_of(result: Json | None) -> str:
    """Return what a server calls itself, after a comma; empty where it does not say."""
    info = None if result is None else result.get("serverInfo")
    if not is_object(info):
        return ""
    return f", {str(info.get('name'))[:60]} {str(info.get('version'))[:30]}"
