"""Writes the list of modules, `docs/project/modules.md`, from the first lines of their docstrings.

python bench/house/modules.py            # writes the page
python bench/house/modules.py --check    # exits with 1 if the page is out of date
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

from plain import PACKAGE, ROOT

PAGE: Final = ROOT / "docs" / "project" / "modules.md"

HEAD: Final = """# Modules

Every module of the package, with the first line of its docstring. `make house` writes this page from the code.
[Architecture](architecture.md) describes the packages and the layers of their imports.
"""


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, as a cell of a table."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return docstring.partition("\n")[0].replace("|", r"\|").replace("<", "&lt;")


def page() -> str:
    """Return the page."""
    packages: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        packages[path.parent.relative_to(PACKAGE.parent).as_posix()].append(path)
    parts = [HEAD]
    for package, paths in sorted(packages.items()):
        rows = [f"| `{path.name}` | {first_line(path)} |" for path in paths if path.name != "__init__.py"]
        about = first_line(paths[0].with_name("__init__.py"))
        parts.append(
            "\n".join([f"## {package}\n", f"{about}\n", "| module | contents |", "| --- | --- |", *rows, ""])
        )
    return "\n".join(parts)


def main() -> int:
    """Write or check the page."""
    text = page()
    if "--check" in sys.argv:
        return int(PAGE.read_text("utf-8") != text)
    PAGE.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
