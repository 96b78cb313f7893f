"""How a process takes what is odd, and how it ends."""

from __future__ import annotations

import os
from typing import Final

from ....protocol.revisions import LATEST_HANDSHAKE, PROTOCOL_VERSION
from ..findings.finding import Seen, quoted
from ..patients.conversation import Answer, opening
from ..patients.patient import there
from ..patients.process import ProcessConversation
from ..patients.process_patient import ProcessPatient

_NAME: Final = "naïve Á 日本 😀"
"""A request id that servers must return unchanged; some of its UTF-8 bytes are undefined in Windows-1252."""
_REPEATING: Final = 3.0
_ENDING: Final = 5.0
_LEAVING: Final = 1.0
_WINDOWS: Final = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}


async def malformed(patient: ProcessPatient) -> Seen:
    """Send what is no JSON, and see whether the process goes on."""
    seen = Seen("malformed messages")
    main = there(patient.main)
    main.write(b'{"jsonrpc": "2.0", "id": \n')
    answer = await patient.ask("tools/list", {})
    if not answer.result and not answer.error:
        seen.find("malformed-ends")
        patient.is_main_lost = True
        return seen
    seen.summary = "the server continues after one"
    return seen


async def encoding(patient: ProcessPatient) -> Seen:
    """Send an id that is not ASCII, here and where the system has another encoding than UTF-8."""
    seen = Seen("encoding")
    if not patient.is_main_lost and (problem := await _changed(patient, there(patient.main))):
        return seen.find("encoding", problem=problem)
    other = patient.other = patient.start(_WINDOWS)
    opened = await other.ask("initialize", opening(LATEST_HANDSHAKE), seconds=patient.first_patience)
    if opened.result is not None or patient.is_stateless:
        await other.tell("notifications/initialized")
        if problem := await _changed(patient, other):
            return seen.find("encoding-windows", problem=problem)
    seen.summary = "UTF-8, whatever the system's encoding"
    return seen


async def _changed(patient: ProcessPatient, process: ProcessConversation) -> str:
    """Return what comes back instead of an id; empty where it does."""
    before = len(process.unknown_names)
    params = {"_meta": {PROTOCOL_VERSION: patient.revisions[-1]}} if patient.is_stateless else {}
    answer: Answer = await process.ask(
        "tools/list", params, name=_NAME, seconds=min(_REPEATING, patient.patience)
    )
    if answer.result is not None or answer.error is not None:
        return ""
    others = process.unknown_names[before:]
    return f"{_NAME!r} as {quoted(others[0])}" if others else str(answer)


async def end(patient: ProcessPatient) -> Seen:
    """Close standard input, and see whether the process ends with all that it has started."""
    seen = Seen("end of standard input")
    main = patient.start() if patient.is_main_lost else there(patient.main)
    if patient.is_main_lost:
        await main.ask("initialize", opening(LATEST_HANDSHAKE), seconds=patient.first_patience)
    begun = patient.now()
    main.close_input()
    if not await main.exit_within(_ENDING):
        return seen.find("input-end-ignored", seconds=_ENDING)
    passed = patient.now() - begun
    if await main.has_left_others(_LEAVING):
        seen.find("orphans")
    seen.summary = f"the process ended after {passed:.1f} s"
    return seen


async def sigterm(patient: ProcessPatient) -> Seen:
    """Send SIGTERM to another process, and see whether it ends."""
    seen = Seen("SIGTERM")
    other = patient.other
    if os.name == "nt" or other is None or other.ended.done():
        return seen
    begun = patient.now()
    other.terminate()
    if not await other.exit_within(_ENDING):
        return seen.find("sigterm-ignored", seconds=_ENDING)
    seen.summary = f"the process ended after {patient.now() - begun:.1f} s"
    return seen
