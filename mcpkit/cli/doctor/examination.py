"""The checks in order, and what they come to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeVar

from .checks import behaviour, calls, clients, http, leaving, origins, reaching, revisions, starting
from .findings.finding import Seen
from .patients.patient import Patient
from .patients.process_patient import ProcessPatient
from .patients.web_patient import WebPatient

P = TypeVar("P", bound=Patient)

Check = Callable[[P], Awaitable[Seen]]

OF_PROCESSES: Final[tuple[Check[ProcessPatient], ...]] = (
    starting.start,
    starting.output,
    revisions.of_process,
    behaviour.lists,
    behaviour.features,
    behaviour.answers,
    calls.calls,
    clients.client,
    leaving.malformed,
    leaving.encoding,
    starting.output,
    leaving.end,
    leaving.sigterm,
)

_OF_BEHAVIOUR: Final[tuple[Check[Patient], ...]] = (
    behaviour.lists,
    behaviour.features,
    behaviour.answers,
    calls.calls,
    clients.client,
)

AT_FIRST: Final[tuple[Check[WebPatient], ...]] = (reaching.reach, reaching.machine)

OF_HTTP: Final[tuple[Check[WebPatient], ...]] = (
    http.revisions,
    http.affinity,
    http.statuses,
    origins.foreign,
    origins.cors,
    http.streams,
    *_OF_BEHAVIOUR,
    reaching.authorization,
    http.leave,
)

OF_SSE: Final[tuple[Check[WebPatient], ...]] = (
    reaching.sse_stream,
    origins.foreign,
    *_OF_BEHAVIOUR,
    reaching.authorization,
)


async def examined(patient: P, checks: tuple[Check[P], ...]) -> AsyncGenerator[Seen]:
    """Yield what each check has seen, until one finds that there is no way on."""
    for check in checks:
        seen = await check(patient)
        yield seen
        if seen.is_end or patient.status is not None:
            return
