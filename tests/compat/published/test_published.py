"""Servers written for `mcp` 1.x, each run by it and by `python -m mcpkit.compat`: what they say is the same.

The four files do what published servers do, which `make compat` runs themselves.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.helpers.published.compare import compare
from tests.helpers.published.journey import Kit, Plan, Step, travel
from tests.helpers.published.peers import Http, Stdio, free_port

ROOT = Path(__file__).parents[3]
MCP_1 = ROOT / ".servers" / "mcp1" / ("Scripts" if sys.platform == "win32" else "bin") / "python"
HERE = Path(__file__).parent / "servers"
REVISION = "2025-11-25"
AUTHOR = {"name": "Ada", "born": "1815"}

KITS = {
    "desk": Kit(
        [
            ("search books", {"query": "sea", "limit": "2", "shelf": "science"}),
            ("add_book", {"book": {"title": "Notes", "author": AUTHOR}, "copies": "3"}),
            ("add_book", {"book": json.dumps({"title": "Notes", "author": AUTHOR})}),
            ("lend", {"title": "Notes", "until": "2025-02-03", "times": "3"}),
            ("loans", {"names": '["ada", "grace"]'}),
            ("account", {"name": 5}),
            ("untyped", {"value": {"a": [1]}}),
            ("cover", {"title": "a"}),
            ("told", {"steps": 3}),
            ("asked", {}),
            ("rooted", {}),
            ("choice", {"way": "up", "by": 2}),
            ("options", {"values": {"a": 1}, "nested": [AUTHOR], "more": {}}),
            ("parsed", {"rows": "[[1], [2, 3]]", "text": "[1]", "flag": "yes"}),
            ("refuse", {"why": "closed"}),
        ],
        reads=["desk://shelves/poetry/4", "desk://shelves/poetry/four"],
        prompts={"recommend": {"subject": "stars"}, "talk-about": {"title": "Sea", "pages": "3"}},
    ),
    "subclassed": Kit(
        [
            ("keep", {"text": "a", "count": "2"}),
            ("hidden one", {"text": "b"}),
            ("made", {"rows": "[1, 2]"}),
            ("replaced", {"text": "c"}),
            ("keep", {"text": "a", "count": "many"}),
            ("calls", {}),
        ],
        left_alone=["forget"],
    ),
    "mounted": Kit([("add", {"first": "1", "second": 2.0}), ("slow", {})]),
    "ledger": Kit(
        [
            ("write", {"text": "second", "amount": 2}),
            ("write", {"text": "third", "amount": -2}),
            ("sum", {}),
            ("ask", {}),
            ("fail", {"how": "error"}),
            ("fail", {"how": "badly"}),
        ],
        reads=["ledger://lines/0", "ledger://lines/9"],
        prompts={"report": {"year": "2025"}},
    ),
}


def journey(name: str, command: list[str], plan: Plan, folder: Path) -> list[Step]:
    """Run a server and ask it everything."""
    settings = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "PATH": "", "TZ": "UTC"}
    notes = folder / f"{name}.txt"
    file = str(HERE / f"{name}.py")
    if name == "mounted":
        port = free_port()
        peer = Http([*command, file, str(port)], settings, folder, notes, port, "/served/")
    else:
        peer = Stdio([*command, file], settings, folder, notes)
    try:
        return travel(peer, plan, REVISION, is_whole=True)
    finally:
        peer.close()


def of_one_pydantic(steps: list[Step]) -> list[Step]:
    """Forget which pydantic a text of error refers to: each of the two has an environment of its own."""
    text = re.sub(
        r"errors\.pydantic\.dev/[\d.]+/", "errors.pydantic.dev/", json.dumps([s.heard for s in steps])
    )
    return [Step(step.label, heard) for step, heard in zip(steps, json.loads(text), strict=True)]


@pytest.mark.skipif(not MCP_1.exists(), reason="mcp 1.x is not in .servers/mcp1: make setup")
@pytest.mark.parametrize("name", KITS)
def test_a_server_says_the_same_under_its_library_and_under_compat(name: str, tmp_path: Path) -> None:
    plan = Plan(KITS[name])
    own = of_one_pydantic(journey(name, [str(MCP_1)], plan, tmp_path))
    ours = of_one_pydantic(journey(name, [sys.executable, "-m", "mcpkit.compat"], plan, tmp_path))
    assert len(own) > 15
    verdict = compare(own, own, ours, "1.30.0")
    differing = [each for each in verdict.differences if each.label not in KNOWN]
    assert not differing, "\n".join(
        f"{d.label}: {d.path}\n  {d.own[:200]}\n  {d.ours[:200]}" for d in differing
    )


KNOWN = {
    "no such method",  # mcp 1.30 says that the parameters are wrong; mcpkit that there is no such method
}
