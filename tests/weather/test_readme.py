"""What the example's README tells people to do works."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest

from .conftest import EXAMPLE

README = (EXAMPLE / "README.md").read_text("utf-8")
SNIPPETS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


def commands() -> list[list[str]]:
    """The command line that each host is told to run."""
    found = []
    for language, text in SNIPPETS:
        if language == "json":
            configuration = json.loads(text)
            (servers,) = configuration.values()
            found.append([servers["weather"]["command"], *servers["weather"]["args"]])
        else:
            found.append(shlex.split(text.partition(" -- ")[2]))
    return found


@pytest.mark.parametrize("command", commands())
def test_a_host_that_is_set_up_so_gets_an_answer(command, tmp_path):
    places = {
        "/path/to/.venv/bin/python": sys.executable,
        "/path/to/examples/weather/server.py": str(EXAMPLE / "server.py"),
    }
    finished = subprocess.run(
        [places.get(word, word) for word in command],
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert json.loads(finished.stdout) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_three_hosts_are_shown():
    assert len(commands()) == 3


def test_it_names_every_file_and_everything_that_is_offered(example):
    files = {file.name for file in EXAMPLE.glob("*.py")}
    assert {name for name in files if f"| `{name}` |" not in README} == set()
    offered = [component.key for part in example.server.server.parts for component in part]
    assert len(offered) == 6
    assert [key for key in offered if f"`{key}" not in README] == []
