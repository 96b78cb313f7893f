"""What may go wrong between a client and a server over HTTP."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.helpers.chaos.peer import OLDEST, Peer


class Refusal(NamedTuple):
    """An answer that is no success.

    Args:
        status: Its status.
        wait: Its `Retry-After`; empty for none.
        has_error: Whether it holds an error of JSON-RPC, and so is the server's own.
    """

    status: int
    wait: str = ""
    has_error: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """Return its headers."""
        told = {"Location": "http://127.0.0.1:1/mcp"} if 300 <= self.status < 400 else {}
        return {**told, "Retry-After": self.wait} if self.wait else told


REFUSALS: Final = {
    "302": Refusal(302),
    "400": Refusal(400),
    "401": Refusal(401),
    "403": Refusal(403),
    "404": Refusal(404),
    "429": Refusal(429),
    "429 and when": Refusal(429, "3"),
    "429 for long": Refusal(429, "3600"),
    "500": Refusal(500),
    "502": Refusal(502),
    "503": Refusal(503),
    "503 and when": Refusal(503, "3"),
    "503 and when, by itself": Refusal(503, "3", has_error=True),
    "504": Refusal(504),
    "500 though done": Refusal(500),
    "502 though done": Refusal(502),
    "503 though done": Refusal(503),
    "503 and when though done": Refusal(503, "3"),
    "504 though done": Refusal(504),
}
"""Those that do not say so come before anything is done: a server that has done something does not say 404, say."""

BEFORE: Final = frozenset(
    {
        *(name for name in REFUSALS if "done" not in name),
        "cut",
        "dies before",
        "dies and comes back as another",
        "nothing",
    }
)
AFTER: Final = frozenset(
    {
        *(name for name in REFUSALS if "done" in name),
        "202",
        "another id",
        "another id alone",
        "cut though done",
        "dies after",
        "empty",
        "garbage",
        "half an answer",
        "late",
        "nothing though done",
    }
)

_ALL: Final = (*sorted(BEFORE), *sorted(AFTER), "twice")


def faults_of(peer: Peer) -> tuple[str, ...]:
    """Return the faults that a server of its revision may have."""
    if peer.revision == OLDEST:
        return tuple(each for each in _ALL if each != "dies and comes back as another")
    return _ALL
