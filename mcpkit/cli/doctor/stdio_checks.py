"""Checks of a process: its start, standard output, encoding, and its end."""

from __future__ import annotations

import os
import time
from typing import Final

from ..._utils.exceptions import TransportError
from ...protocol.revisions import LATEST_HANDSHAKE, PROTOCOL_VERSION
from ..exit_status import Status
from .probe import Answer, CheckResult, initialize_params, quoted, required
from .process_probe import ProcessProbe, StdioConnection
from .protocol_checks import server_of

_SLOW: Final = 15.0
_FLUSH_TIMEOUT: Final = 3.0
"""Seconds that a process gets to flush its output after its input is closed."""
_MAX_NOISE: Final = 3


async def check_start(probe: ProcessProbe) -> CheckResult:
    """Start the process, and wait for its first response."""
    check = CheckResult("start")
    try:
        main = probe.main = probe.start()
    except TransportError as error:
        probe.status = Status.NOT_REACHED
        return check.add_finding("not-started", problem=str(error))
    started_at = time.monotonic()
    answer = await main.request(
        "initialize", initialize_params(LATEST_HANDSHAKE), seconds=probe.first_timeout
    )
    passed = time.monotonic() - started_at
    if answer.result is None and answer.error is None:
        probe.status = Status.NOT_REACHED
        if main.ended.done():
            return check.add_finding("ended-at-start", how=main.exit_reason, last=main.stderr_tail)
        main.close_input()
        if await main.has_flushed(_FLUSH_TIMEOUT):
            probe.status = Status.FINDINGS
            return check.add_finding("buffered-output")
        return check.add_finding("no-answer", seconds=passed, last=main.stderr_tail)
    if passed > _SLOW:
        check.add_finding("slow-start", seconds=passed)
    if answer.result is not None:
        probe.initialize_result = answer.result
        await main.notify("notifications/initialized")
    check.summary = f"first response after {passed:.1f} s{server_of(answer.result)}"
    return check


async def check_stdout(probe: ProcessProbe) -> CheckResult:
    """Find output on stdout that is not a message."""
    check = CheckResult("standard output")
    main = required(probe.main)
    if main.has_byte_order_mark and not probe.is_output_checked:
        check.add_finding("byte-order-mark")
    if main.has_returns and not probe.is_output_checked:
        check.add_finding("crlf")
    for noise in main.noise[probe.reported_noise :][:_MAX_NOISE]:
        check.add_finding("noise", line=noise.line, text=quoted(noise.text))
    if not check.findings and not probe.is_output_checked:
        check.summary = "messages alone"
    probe.reported_noise = len(main.noise)
    probe.is_output_checked = True
    return check


_NON_ASCII_ID: Final = "naïve Á 日本 😀"
"""A request id that servers must return unchanged; some of its UTF-8 bytes are undefined in Windows-1252."""
_ID_TIMEOUT: Final = 3.0
_EXIT_TIMEOUT: Final = 5.0
_ORPHAN_TIMEOUT: Final = 1.0
_WINDOWS: Final = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}


async def check_malformed(probe: ProcessProbe) -> CheckResult:
    """Send a line that is not JSON, and check that the process continues."""
    check = CheckResult("malformed messages")
    main = required(probe.main)
    main.write(b'{"jsonrpc": "2.0", "id": \n')
    answer = await probe.request("tools/list", {})
    if not answer.result and not answer.error:
        check.add_finding("malformed-ends")
        probe.has_main_failed = True
        return check
    check.summary = "the server continues after one"
    return check


async def check_encoding(probe: ProcessProbe) -> CheckResult:
    """Send a non-ASCII id, with this system's encoding and with that of Windows."""
    check = CheckResult("encoding")
    if not probe.has_main_failed and (problem := await _changed_id(probe, required(probe.main))):
        return check.add_finding("encoding", problem=problem)
    other = probe.other = probe.start(_WINDOWS)
    initialize_result = await other.request(
        "initialize", initialize_params(LATEST_HANDSHAKE), seconds=probe.first_timeout
    )
    if initialize_result.result is not None or probe.is_stateless:
        await other.notify("notifications/initialized")
        if problem := await _changed_id(probe, other):
            return check.add_finding("encoding-windows", problem=problem)
    check.summary = "UTF-8, whatever the system's encoding"
    return check


async def _changed_id(probe: ProcessProbe, process: StdioConnection) -> str:
    """Return the wrong id or problem of a response to a non-ASCII id; empty if the id is right."""
    before = len(process.unmatched_ids)
    params = {"_meta": {PROTOCOL_VERSION: probe.revisions[-1]}} if probe.is_stateless else {}
    answer: Answer = await process.request(
        "tools/list", params, request_id=_NON_ASCII_ID, seconds=min(_ID_TIMEOUT, probe.response_timeout)
    )
    if answer.result is not None or answer.error is not None:
        return ""
    others = process.unmatched_ids[before:]
    return f"{_NON_ASCII_ID!r} as {quoted(others[0])}" if others else str(answer)


async def check_input_end(probe: ProcessProbe) -> CheckResult:
    """Close stdin, and check that the process and its child processes exit."""
    check = CheckResult("end of standard input")
    main = probe.start() if probe.has_main_failed else required(probe.main)
    if probe.has_main_failed:
        await main.request("initialize", initialize_params(LATEST_HANDSHAKE), seconds=probe.first_timeout)
    started_at = time.monotonic()
    main.close_input()
    if not await main.exit_within(_EXIT_TIMEOUT):
        return check.add_finding("input-end-ignored", seconds=_EXIT_TIMEOUT)
    passed = time.monotonic() - started_at
    if await main.has_orphans(_ORPHAN_TIMEOUT):
        check.add_finding("orphans")
    check.summary = f"the process ended after {passed:.1f} s"
    return check


async def check_sigterm(probe: ProcessProbe) -> CheckResult:
    """Send SIGTERM to another process, and check that it exits."""
    check = CheckResult("SIGTERM")
    other = probe.other
    if os.name == "nt" or other is None or other.ended.done():
        return check
    started_at = time.monotonic()
    other.terminate()
    if not await other.exit_within(_EXIT_TIMEOUT):
        return check.add_finding("sigterm-ignored", seconds=_EXIT_TIMEOUT)
    check.summary = f"the process ended after {time.monotonic() - started_at:.1f} s"
    return check
