"""A file of which only the import of `FastMCP` is changed may take all else from an `mcp` that is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import PYTHON

SCRIPT = Path(__file__).with_name("installed.py")
SAID = [{"src": "a://b"}, {"readOnlyHint": True}]
TEXT = {"type": "text", "text": "hi"}


@pytest.fixture(scope="module", params=["1", "2"])
def outcome(request: pytest.FixtureRequest) -> dict[str, Any]:
    folders = [str(Path(__file__).parents[3])]
    if request.param == "1":
        found = list(PYTHON.parents[1].glob("lib/python*/site-packages"))
        if not found or found[0].parent.name != "python{}.{}".format(*sys.version_info):
            pytest.skip("mcp 1.x is not there for this Python")
        folders += map(str, found)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [sys.executable, SCRIPT], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_its_context_is_a_context(outcome):
    for name in ("told", "perhaps"):
        context, said, structured = outcome[name]
        assert (context, structured) == ("ctx", {"result": "1 C"})
        assert said == [*SAID, {"type": "text", "text": "1 C"}]


def test_its_content_is_content(outcome):
    _, said, structured = outcome["text"]
    assert said == [*SAID, TEXT]
    assert [each["text"] for each in structured["result"]] == ["hi"]
    pictures = [
        {"type": "image", "data": "eA==", "mimeType": "image/png"},
        {"type": "audio", "data": "eQ==", "mimeType": "audio/wav"},
        {"type": "image", "data": "eA==", "mimeType": "image/png"},
    ]
    assert outcome["media"] == [None, [*SAID, *pictures], None]
    resource = {"uri": "a://b", "mimeType": "text/plain", "text": "x"}
    resources = [
        {"type": "resource", "resource": resource},
        {"type": "resource_link", "uri": "a://b", "name": "x"},
    ]
    assert outcome["resources"] == [None, [*SAID, *resources], None]


def test_its_whole_results_are_results(outcome):
    result = {"content": [TEXT], "structuredContent": {"a": 1}, "isError": True}
    assert outcome["whole"] == [None, [*SAID, result], None]


def test_its_error_that_asks_for_a_visit_is_raised_as_it_is(outcome):
    assert outcome["visit"] == ["UrlElicitationRequiredError", "URL elicitation required"]
