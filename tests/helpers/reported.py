"""What the clients of `reporting_server.py` must have heard, over whichever transport and in whichever era."""

from __future__ import annotations

import json
from typing import Any, Protocol

from mcpkit.calls.reports import BURST, INTERVAL

TOKEN = "p"
LEVELS = {
    1: "debug",
    2: "info",
    3: "warning",
    4: "error",
    5: "debug",
    6: "info",
    7: "warning",
    8: "error",
    9: "error",
}
"""The level of each record that `tell` and `tell_in_thread` make, by its number."""

SEVERITIES = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Caller(Protocol):
    """A client in one session, or in the stateless era."""

    revision: str

    def call(
        self, name: str, *, level: str | None = None, token: str | None = TOKEN, **arguments: Any
    ) -> list[dict[str, Any]]:
        """Call a tool, and return all messages up to and with the response.

        Args:
            name: The tool.
            level: What to ask for first, in the session; or in the request itself.
            token: The progress token, if there shall be one.
            arguments: The tool's.
        """
        ...


def told(messages: list[dict[str, Any]]) -> list[Any]:
    """Return the numbers of the progress and the data of the records, in their order, and `answer` last."""
    return [
        each["params"].get("progress", each["params"].get("data")) if "method" in each else "answer"
        for each in messages
    ]


def check_track(caller: Caller, name: str) -> None:
    """Progress and records come in the order in which they were made, before the response."""
    messages = caller.call(name, level="debug", count=3)
    assert told(messages) == [0, "page 0", 1, "page 1", 2, "page 2", 3, "answer"]
    assert messages[-1]["result"]["content"][0]["text"] == "indexed"
    for each in messages[0:-1:2]:
        assert each["method"] == "notifications/progress"
        params = each["params"]
        assert (params["progressToken"], params["total"]) == (TOKEN, 3)
        assert params.get("message") == (None if caller.revision == "2024-11-05" else "Indexing")
    for each in messages[1:-1:2]:
        assert each["method"] == "notifications/message"
        assert (each["params"]["level"], each["params"]["logger"]) == ("debug", "archive")


def check_rate(caller: Caller, name: str, count: int = 1000) -> None:
    """Of many reports the first and the last come, in order, and at most as many as their time allows."""
    messages = caller.call(name, count=count)
    hurry = json.loads(messages[-1]["result"]["content"][0]["text"])
    numbers = [each["params"]["progress"] for each in messages[:-1]]
    assert (numbers[0], numbers[-1]) == (1, count)
    assert numbers == sorted(set(numbers))
    assert hurry["count"] == count
    # The one that reaches the total comes at once, whatever came before.
    assert len(numbers) <= BURST + hurry["seconds"] / INTERVAL + 1
    assert BURST + 1 / INTERVAL <= 50, "in any second"


def check_increase(caller: Caller) -> None:
    """What does not increase is not told."""
    assert told(caller.call("stray")) == [1, 2, 3, "answer"]


def check_token(caller: Caller) -> None:
    """Without a token there is no progress."""
    assert told(caller.call("index", token=None, level="error", count=3)) == ["answer"]


def check_level(caller: Caller, name: str, level: str) -> None:
    """Records come from the level on that was asked for, whoever makes them and in whichever thread."""
    messages = caller.call(name, level=level)
    least = SEVERITIES.index(level)
    wanted = {number: each for number, each in LEVELS.items() if SEVERITIES.index(each) >= least}
    heard = {number_of(each): each["params"]["level"] for each in messages[:-1]}
    assert heard == wanted
    for each in messages[:-1]:
        assert each["params"].get("logger") == {1: "own"}.get(
            number_of(each), "archive" if number_of(each) > 4 else None
        )
    assert "result" in messages[-1]


def number_of(message: dict[str, Any]) -> int:
    """Return the number of a record."""
    data = message["params"]["data"]
    return data["n"] if isinstance(data, dict) else int(data.removeprefix("n "))


def check_released(messages: list[dict[str, Any]]) -> None:
    """What reported too late was told so, and was heard by nobody, also not by who let it go on."""
    assert told(messages) == [1, "answer"]
    (met,) = messages[-1]["result"]["content"]
    assert met["text"].count("request that has ended") == 2
