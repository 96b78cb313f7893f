"""`mcpkit new` creates a project; `mcpkit migrate` rewrites servers of the official SDK for mcpkit."""

from __future__ import annotations

import json
import keyword
import re
import sys
from pathlib import Path
from string import Template
from typing import Final

import click

from .._utils.package import requirement
from .exit_status import CommandError

_TEMPLATES: Final = Path(__file__).parent / "project_template"

_PATHS: Final = {"gitignore": ".gitignore", "ci.yml": ".github/workflows/ci.yml"}
"""Paths of project files that differ from those of their templates."""

_TAKEN: Final = frozenset({"mcp", "mcpkit", "fastmcp", "pydantic", "pytest", "server", "test", "tests"})
"""Packages that conflict with a project of the same name."""

_HATCH_METADATA: Final = """
[tool.hatch.metadata]
allow-direct-references = true
"""

_LOCAL_NOTE: Final = """
`pyproject.toml` refers to mcpkit by its path on this machine: `{}`. Other machines,
such as CI, need another source: a package index, a URL, or a Git repository.
"""


@click.command("new", epilog="Example: mcpkit new weather")
@click.argument("path", metavar="NAME", type=click.Path(path_type=Path))
@click.option("--description", metavar="TEXT", help="One line about the server.")
def new(path: Path, description: str | None) -> None:
    """Create a project: a server that runs, tests, type checks, a CI file, and install instructions.

    NAME is the name of the server and its folder, or the path of the folder.
    """
    folder = path.expanduser().absolute()
    name = re.sub(r"[\s_]+", "-", folder.name).lower()
    package = _package(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CommandError(f"{path} exists and is not an empty folder. Choose another name")
    summary = (description or f"The {name} server").strip().rstrip(".")
    if not summary or "\n" in summary:
        raise CommandError("--description must be one line of text")
    mcpkit = requirement()
    words = {
        "name": name,
        "package": package,
        "title": name.replace("-", " ").capitalize(),
        "description": _quoted(summary),
        "docstring": f"{summary}.".replace("\\", "\\\\").replace('"""', "'''"),
        "literal": _literal(f"{summary}."),
        "mcpkit": _quoted(mcpkit),
        "mcpkit_cli": _quoted(requirement("cli")),
        "hatch_metadata": _HATCH_METADATA if "@" in mcpkit else "",
        "local_note": _LOCAL_NOTE.format(mcpkit) if " @ file:" in mcpkit else "",
    }
    for source in _TEMPLATES.rglob("*.txt"):
        target = source.relative_to(_TEMPLATES).with_suffix("").as_posix()
        file = folder / _PATHS.get(target, target.replace("package/", f"{package}/"))
        file.parent.mkdir(parents=True, exist_ok=True)
        template = Template(source.read_text(encoding="utf-8"))
        is_prose = target == "README.md"
        text = template.substitute({**words, "description": f"{summary}."} if is_prose else words)
        file.write_text(text, encoding="utf-8", newline="\n")
    print(f"created {path}. Next steps:")
    print(f'  cd "{path}"' if " " in str(path) else f"  cd {path}")
    print(f"  mcpkit call {package}/server.py greet name=Ada")
    print(f"  mcpkit run {package}/server.py --reload")


def _package(name: str) -> str:
    """Return the name of the package of a project.

    Raises:
        CommandError: No valid name of a package can be made from it.
    """
    package = name.replace("-", "_").replace(".", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*[a-z0-9]", package):
        raise CommandError(
            f"{name!r} is not a valid project name. Use letters, digits and hyphens, and begin with a letter"
        )
    if keyword.iskeyword(package) or package in sys.stdlib_module_names or package in _TAKEN:
        raise CommandError(
            f"the package name {package} conflicts with another package. Choose another name, for example {name}-server"
        )
    return package


def _quoted(text: str) -> str:
    """Return a text as the content of a TOML string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _literal(text: str) -> str:
    """Return a text as a Python literal, with the quotes that need fewer escapes."""
    return repr(text) if text.count('"') > text.count("'") else json.dumps(text, ensure_ascii=False)


@click.command(
    "migrate",
    epilog="Example: mcpkit migrate server.py",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--write|--check] FILE...")
def migrate(arguments: tuple[str, ...]) -> int:
    """Rewrite servers of the official SDK for mcpkit."""
    from ..compat.migrate.__main__ import main

    try:
        return main(arguments, "mcpkit migrate")
    except SystemExit as end:  # from the argument parser, which has printed the error
        return end.code if isinstance(end.code, int) else 1
