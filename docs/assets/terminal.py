"""Draw `terminal.svg`: commands of mcpkit on the server of README.md, run in a temporary folder.

    .venv/bin/python docs/assets/terminal.py

The commands run with the mcpkit of this interpreter, so run it again when their output changes.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.text import Text

ROOT: Final = Path(__file__).parents[2]
DRAWN: Final = Path(__file__).with_name("terminal.svg")
COMMANDS: Final = (
    "mcpkit list server.py",
    "mcpkit call server.py convert amount=20",
    "mcpkit call server.py convert amuont=20",
    "mcpkit check server.py",
)
COLUMNS: Final = 86

# Rich's own format loads a font from another site. Programs that show the picture in a page do not load it.
FORMAT: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
    font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
    font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: arial, sans-serif }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def readme_server() -> str:
    """Return the code of `server.py` in README.md."""
    page = (ROOT / "README.md").read_text("utf-8")
    found = re.search(r'^```python title="server\.py"\n(.*?)^```$', page, re.DOTALL | re.MULTILINE)
    if found is None:
        raise SystemExit('README.md has no block ```python title="server.py"')
    return found[1]


def session() -> list[tuple[str, str]]:
    """Run the commands; return each with its output, which may have ANSI colours."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "server.py").write_text(readme_server(), "utf-8")
        environment = os.environ | {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "HOME": folder}
        environment.pop("NO_COLOR", None)
        return [(command, _output(command, folder, environment)) for command in COMMANDS]


def _output(command: str, folder: str, environment: dict[str, str]) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.stdout


def svg() -> str:
    """Return the picture."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for number, (command, output) in enumerate(session()):
        if number:
            console.print()
        console.print(Text.assemble(("$ ", "green"), (command, "bold")))
        console.print(Text.from_ansi(output.rstrip("\n")), highlight=False)
    console.print()
    return console.export_svg(title="server.py", code_format=FORMAT, unique_id="terminal")


if __name__ == "__main__":
    DRAWN.write_text(svg(), "utf-8")
    print(DRAWN)
