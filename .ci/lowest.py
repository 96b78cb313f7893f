"""Prints the lowest version of each package that mcpkit and its extras ask for, as constraints for pip."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = (Path(__file__).parents[1] / "pyproject.toml").read_text()
ASKED = re.compile(r'"(?P<name>[\w-]+)(?:\[[\w,-]+\])?>=(?P<version>[\w.]+)[^"]*"')

asked = PROJECT[PROJECT.index("\ndependencies = [") : PROJECT.index("\ndev = [")]
for found in ASKED.finditer(asked):
    print(f"{found['name']}=={found['version']}")
