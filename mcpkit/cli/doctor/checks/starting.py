"""How a process starts: whether it does, how soon it answers, and what else it writes where messages belong."""

from __future__ import annotations

from typing import Final

from ...._utils.exceptions import TransportError
from ....protocol.revisions import LATEST_HANDSHAKE
from ...exit_status import Status
from ..findings.finding import Seen, quoted
from ..patients.conversation import opening
from ..patients.patient import there
from ..patients.process_patient import ProcessPatient
from .revisions import server_of

_SLOW: Final = 15.0
_FLUSHING: Final = 3.0
"""Seconds that a process gets to flush its output after its input is closed."""
_MOST_NOISE: Final = 3


async def start(patient: ProcessPatient) -> Seen:
    """Start the process, and wait for its first answer."""
    seen = Seen("start")
    try:
        main = patient.main = patient.start()
    except TransportError as error:
        patient.status = Status.NOT_REACHED
        return seen.find("not-started", problem=str(error))
    begun = patient.now()
    answer = await main.ask("initialize", opening(LATEST_HANDSHAKE), seconds=patient.first_patience)
    passed = patient.now() - begun
    if answer.result is None and answer.error is None:
        patient.status = Status.NOT_REACHED
        if main.ended.done():
            return seen.find("ended-at-start", how=main.how_it_ended, last=main.last_words)
        main.close_input()
        if await main.was_flushed(_FLUSHING):
            patient.status = Status.FINDINGS
            return seen.find("buffered-output")
        return seen.find("no-answer", seconds=passed, last=main.last_words)
    if passed > _SLOW:
        seen.find("slow-start", seconds=passed)
    if answer.result is not None:
        patient.opened = answer.result
        await main.tell("notifications/initialized")
    seen.summary = f"first response after {passed:.1f} s{server_of(answer.result)}"
    return seen


async def output(patient: ProcessPatient) -> Seen:
    """Look at what stands on standard output beside messages."""
    seen = Seen("standard output")
    main = there(patient.main)
    if main.has_byte_order_mark and not patient.is_output_seen:
        seen.find("byte-order-mark")
    if main.has_returns and not patient.is_output_seen:
        seen.find("crlf")
    for noise in main.noise[patient.noise_told :][:_MOST_NOISE]:
        seen.find("noise", line=noise.line, text=quoted(noise.text))
    if not seen.findings and not patient.is_output_seen:
        seen.summary = "messages alone"
    patient.noise_told = len(main.noise)
    patient.is_output_seen = True
    return seen
