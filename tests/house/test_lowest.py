"""The lowest versions of dependencies: what `make test-lowest` installs, and that every change has to pass it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_each_dependency_and_that_of_each_extra_is_installed_in_its_lowest_version() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 reads no TOML")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = {}
    for requirement in sum((extras[name] for name in extras if name != "dev"), project["dependencies"]):
        found = re.match(r"(?P<name>[\w-]+)>=(?P<version>[\w.]+)", requirement)
        assert found, f"{requirement} has no lowest version"
        asked[found["name"]] = found["version"]
    printed = subprocess.check_output([sys.executable, str(ROOT / ".ci" / "lowest.py")], text=True)
    assert dict(line.split("==") for line in printed.splitlines()) == asked


@pytest.mark.parametrize("target", ["test", "test-lowest"])
def test_every_change_has_to_pass(target: str) -> None:
    assert re.search(rf"^tested {target}( '[^']*')? \|\|", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
