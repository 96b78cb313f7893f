"""What `asking_server.py` asks, what every client answers, and what it must have been told at the end."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from mcpkit.protocol.revisions import HANDSHAKE as HANDSHAKES

SERVER = Path(__file__).with_name("asking_server.py")
COMMAND = [sys.executable, str(SERVER)]

FORMS_SINCE = "2025-06-18"
URLS_SINCE = TOOL_USE_SINCE = "2025-11-25"
EVER = HANDSHAKES[0]

FORMS: dict[str, list[Any]] = {
    "Which city?": [{"name": "Paris"}],
    "How warm is Paris?": [{"value": 21.5}],
    "What would you like?": [{"value": "tea"}],
    "With sugar?": [{"value": True}],
    "Which colour?": [{"value": "blue"}],
    "Who sits on the left?": [{"value": "Ada"}],
    "Who sits on the right?": [{"value": "Bob"}],
    "Which table?": [{"value": 7}],
    "First?": [{"value": "1"}],
    "Second?": [{"value": "2"}],
    "How many, in pairs?": [{"value": 3}, {"value": 4}],
    "Your salary?": ["decline"],
    "Your shoe size?": ["cancel"],
    "Whom?": [{"value": "Ada"}],
    "How is Ada?": [{"value": "warmly"}],
    "Whose?": [{"value": "Bob"}],
    "When did Bob write?": [{"value": "yesterday"}],
    **{f"Question {number}?": [{"value": str(number)}] for number in range(11)},
}
"""What is entered where, or which way out is taken; the last one as often as it is asked."""

WORDS: dict[str, Any] = {
    "21.5 degrees": "mild",
    "Say hello": "hello",
    "And goodbye": "goodbye",
    "What is the time?": {"type": "tool_use", "id": "use-1", "name": "clock", "input": {}},
    "noon": "it is noon",
}
"""What the client's model says to the last message, a text or the use of a tool."""

ROOTS = [{"uri": "file:///home/ada", "name": "home"}, {"uri": "file:///srv"}]
ANSWERS = {"forms": FORMS, "words": WORDS, "roots": ROOTS}


class Case(NamedTuple):
    """One handler, and what a client must have met there.

    Attributes:
        kind: `tool`, `prompt` or `resource`.
        name: The handler's, or the URI.
        text: A pattern of all that it answers.
        asked: What the client was asked, in order; a set where several things were asked at once.
        lacks: What a client is told that has not declared what it needs, also where its revision has no such thing.
        since: The first revision that can ask it.
        again: A pattern of the error in the stateless era, where a round is not like the one before.
    """

    kind: str
    name: str
    text: str
    asked: list[Any]
    lacks: str = "elicitation"
    since: str = FORMS_SINCE
    again: str = ""


ORDER = [
    r"tea with sugar, number \d+, ordered here 1 times",
    ["What would you like?", "With sugar?"],
]
SEATS = {"Who sits on the left?", "Who sits on the right?"}
CASES = {
    "three dependent questions": Case(
        "tool", "plan", "2 days in Paris, mild", ["Which city?", "How warm is Paris?", "21.5 degrees"]
    ),
    "side effect between questions": Case("tool", "order", *ORDER),
    "state that is taken once": Case("tool", "order_once", *ORDER),
    "side effect between questions of a thread": Case("tool", "order_in_thread", *ORDER),
    "prompt": Case("prompt", "greet", r"Greet Ada warmly\.", ["Whom?", "How is Ada?"]),
    "resource": Case(
        "resource", "notes://day", "day notes of Bob, yesterday", ["Whose?", "When did Bob write?"]
    ),
    "three questions at once": Case(
        "tool",
        "survey",
        "blue; hello; file:///home/ada, file:///srv",
        [{"Which colour?", "Say hello", "roots"}],
    ),
    "asyncio.gather": Case("tool", "gather", "Ada and Bob, 7", [SEATS, "Which table?"]),
    "anyio task group": Case("tool", "group", "Ada and Bob", [SEATS]),
    "another order in the next round": Case(
        "tool",
        "fickle",
        "1 2",
        ["First?", "Second?"],
        again="The handler is not deterministic: under '.+' it asked something else before",
    ),
    "parameter that is asked for": Case("tool", "attend", "table 7, True", ["Which table?", "With sugar?"]),
    "wrong entry": Case("tool", "pair", "4 of them", ["How many, in pairs?", "How many, in pairs?"]),
    "decline": Case("tool", "refuse", "decline", ["Your salary?"]),
    "cancel": Case("tool", "dismiss", "cancel", ["Your shoe size?"]),
    "decline of what is needed": Case("tool", "insist", "error: .*declined.*", ["Your salary?"]),
    "page to visit": Case("tool", "pay", "accept, 1 payment", ["Please pay"], since=URLS_SINCE),
    "sampling": Case(
        "tool",
        "muse",
        r"hello, goodbye \(parrot\)",
        ["Say hello", "And goodbye"],
        lacks="sampling",
        since=EVER,
    ),
    "sampling with a tool": Case(
        "tool",
        "consult",
        "toolUse clock: it is noon",
        ["What is the time?", "noon"],
        lacks="sampling",
        since=TOOL_USE_SINCE,
    ),
    "roots": Case(
        "tool",
        "places",
        "home file:///home/ada, nameless file:///srv",
        ["roots"],
        lacks="roots",
        since=EVER,
    ),
}
HANDLERS = [(case.kind, case.name) for case in CASES.values()]


class Answers:
    """Whoever answers a client's questions, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._counts: dict[str, int] = {}

    def start(self) -> None:
        """Forget what was asked, before the next handler is used."""
        self.asked = []
        self._counts = {}

    def entry(self, text: str) -> Any:
        """Return what is entered in a form: an object, or the name of another action than to accept."""
        message = text.partition("\n")[0]  # below it stands what was wrong with the last entry
        self.asked.append(message)
        count = self._counts[message] = self._counts.get(message, -1) + 1
        entries = FORMS[message]
        return entries[min(count, len(entries) - 1)]

    def words(self, text: str) -> Any:
        """Return what the model says to a text, or the tool that it uses."""
        self.asked.append(text)
        return WORDS[text]


def check(seen: dict[str, Any], case: Case, revision: str, *, can: bool = True) -> None:
    """Assert what a client has met.

    Args:
        seen: Its account: `text` of the result, `error: ` in front where it is one; or `code` and `message` of
            a protocol error, and its `data`; and what was `asked` meanwhile.
        case: The handler.
        revision: What was negotiated.
        can: Whether the client has declared what the handler needs.
    """
    is_stateless = revision not in HANDSHAKES
    if can and revision >= case.since:
        if is_stateless and case.again:
            assert seen["code"] == -32602
            assert re.search(case.again, seen["message"])
            assert seen["asked"] == case.asked[:1]
            return
        assert re.fullmatch(case.text, seen["text"]), seen
        asked = [*seen["asked"]]
        for expected in case.asked:
            count = len(expected) if isinstance(expected, set) else 1
            met = {*asked[:count]} if isinstance(expected, set) else asked[0]
            assert met == expected
            del asked[:count]
        assert asked == []
        return
    assert seen["asked"] == []
    if is_stateless:
        assert seen["code"] == -32021
        assert case.lacks in str(seen["data"]["requiredCapabilities"])
    elif case.kind == "tool":
        assert re.match(f"error: .*{case.lacks}", seen["text"])
    else:
        assert seen["code"] == -32602
        assert case.lacks in seen["message"]
