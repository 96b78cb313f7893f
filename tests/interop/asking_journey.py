"""What every client answers to `asking_server.py`, and what it must have been told at the end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

SERVER = Path(__file__).with_name("asking_server.py")
COMMAND = [sys.executable, str(SERVER)]
URL_REVISIONS = ["2025-11-25", "2026-07-28"]
"""Those that can send the user to a page."""

TOOLS = ["plan", "order", "survey", "refuse", "pay"]
FORMS: dict[str, Any] = {
    "Which city?": {"name": "Paris"},
    "How warm is Paris?": {"value": 21.5},
    "What would you like?": {"value": "tea"},
    "With sugar?": {"value": True},
    "Which colour?": {"value": "blue"},
    "Whom?": {"value": "Ada"},
    "Whose?": {"value": "Bob"},
    "Your salary?": None,
}
"""What is entered where; None declines."""
WORDS = {"21.5 degrees": "mild", "Say hello": "hello"}
"""What the client's model says to what."""
ROOTS = ["file:///home/ada", "file:///srv"]
ANSWERS = {"forms": FORMS, "words": WORDS, "roots": ROOTS}

TEXTS = {
    "plan": "2 days in Paris, mild",
    "survey": "blue; hello; file:///home/ada, file:///srv",
    "refuse": "decline",
    "pay": "accept, 1 payment",
}
ASKED = [
    "Which city?",
    "How warm is Paris?",
    "21.5 degrees",
    "What would you like?",
    "With sugar?",
    *sorted(["Which colour?", "Say hello", "roots"]),
    "Your salary?",
    "Please pay",
    "Whom?",
    "Whose?",
]


def check(seen: dict[str, Any], revision: str) -> None:
    """Assert all that was seen.

    Args:
        seen: The client's account: `revision`; of each tool its text; `prompt`, `read`, and what was `asked`.
        revision: What must have been negotiated.
    """
    assert seen["revision"] == revision
    can_visit = revision in URL_REVISIONS
    for name, text in TEXTS.items():
        if name != "pay" or can_visit:
            assert seen[name] == text
    before, _, times = seen["order"].rpartition(", ")
    assert before.startswith("tea with sugar, number ")
    assert times == "ordered here 1 times"
    assert seen["prompt"] == "Greet Ada warmly."
    assert seen["read"] == "day notes of Bob"
    at_once = slice(5, 8)  # these come in any order
    asked = [*seen["asked"]]
    asked[at_once] = sorted(asked[at_once])
    assert asked == [each for each in ASKED if can_visit or each != "Please pay"]
