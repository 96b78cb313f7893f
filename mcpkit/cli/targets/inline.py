"""Dependencies that a script itself declares, in a `# /// script` block (PEP 723), and uv, which installs them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from ..._utils.package import requirement
from ...protocol.jsonrpc import is_array
from ..exit_status import CommandError, Status

_VARIABLE: Final = "MCPKIT_SCRIPT"
"""Environment variable with the file that uv was started for, which prevents a second start."""


class Inline(NamedTuple):
    """The `# /// script` block of a file.

    Attributes:
        dependencies: The requirements (PEP 508).
        python: The versions of Python, or None.
        has_settings: Whether it has settings of uv, such as sources, which only `uv run --script` reads.
    """

    dependencies: tuple[str, ...]
    python: str | None
    has_settings: bool

    def missing(self) -> list[str]:
        """Return the requirements that this Python does not meet."""
        import platform
        from importlib.metadata import PackageNotFoundError, version

        from packaging.requirements import Requirement
        from packaging.specifiers import SpecifierSet

        missing: list[str] = []
        if self.python and not SpecifierSet(self.python).contains(
            platform.python_version(), prereleases=True
        ):
            missing.append(f"Python {self.python}")
        for text in self.dependencies:
            wanted = Requirement(text)
            if wanted.marker is not None and not wanted.marker.evaluate():
                continue
            try:
                is_there = wanted.specifier.contains(version(wanted.name), prereleases=True)
            except PackageNotFoundError:
                is_there = False
            if not is_there:
                missing.append(text)
        return missing

    def script_command(self, path: Path, arguments: Sequence[str]) -> list[str]:
        """Return the command by which uv runs the file as a script.

        Args:
            path: The file.
            arguments: Its own arguments.

        Raises:
            CommandError: There is no uv.
        """
        return [*_uv_run(path), "--script", str(path), *arguments]

    def command(self, path: Path, run: Sequence[str]) -> list[str]:
        """Return the command by which uv installs the dependencies and has `mcpkit` run the file.

        Args:
            path: The file.
            run: The arguments of `mcpkit`.

        Raises:
            CommandError: There is no uv, or the block has settings.
        """
        if self.has_settings:
            raise CommandError(
                f"{path}: only `uv run --script` reads the table [tool] of its `# /// script` block. Add to the file: "
                'if __name__ == "__main__": server.run()'
            )
        from packaging.requirements import Requirement
        from packaging.utils import canonicalize_name

        is_listed = any(canonicalize_name(Requirement(each).name) == "mcpkit" for each in self.dependencies)
        needed = [*self.dependencies, "mcpkit[cli]" if is_listed else requirement("cli")]
        python = ["--python", self.python] if self.python else []
        packages = [word for each in dict.fromkeys(needed) for word in ("--with", each)]
        return [*_uv_run(path), "--no-project", *python, *packages, "mcpkit", *run]


def _uv_run(path: Path) -> list[str]:
    """Return the start of the command, with the settings of uv in the file's folder, not in the current one."""
    return [uv(), "run", "--project", str(path.parent)]


def inline_of(path: Path) -> Inline | None:
    """Return what a file declares in its `# /// script` block; None where it has none.

    Raises:
        CommandError: The block cannot be read.
    """
    text = _block(path)
    if text is None:
        return None
    import tomlkit
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from tomlkit.exceptions import TOMLKitError

    try:
        found: Mapping[str, object] = tomlkit.parse(text).unwrap()
        given = found.get("dependencies", [])
        python = found.get("requires-python")
        dependencies = [each for each in given if isinstance(each, str)] if is_array(given) else []
        if dependencies != given:
            raise TypeError("dependencies must be a list of strings")
        if python is not None and not isinstance(python, str):
            raise TypeError("requires-python must be a string")
        for each in dependencies:
            Requirement(each)
        SpecifierSet(python or "")
    except (TOMLKitError, InvalidRequirement, InvalidSpecifier, TypeError) as error:
        raise CommandError(f"{path}: invalid `# /// script` block: {error}") from None
    return Inline(tuple(dependencies), python, bool(found.get("tool")))


def _block(path: Path) -> str | None:
    lines = path.read_text("utf-8-sig", errors="replace").splitlines()
    starts = [number for number, line in enumerate(lines) if line == "# /// script"]
    blocks: list[str] = []
    for start in starts:
        content: list[str] = []
        for line in lines[start + 1 :]:
            if line != "#" and not line.startswith("# "):
                break
            content.append(line[2:])
        if "///" in content:  # the last such line of the comment ends the block
            end = len(content) - 1 - content[::-1].index("///")
            blocks.append("\n".join(content[:end]))
    if len(blocks) > 1:
        raise CommandError(f"{path} has {len(blocks)} `# /// script` blocks. Keep one")
    return blocks[0] if blocks else None


def uv() -> str:
    """Return the path of uv.

    Raises:
        CommandError: There is none on the PATH.
    """
    program = _installed_uv()
    if program is None:
        raise CommandError("uv is not on the PATH. Install it: https://docs.astral.sh/uv/")
    return program


def _installed_uv() -> str | None:
    """Return the path of uv; one in the current folder, where Windows looks first, is not trusted."""
    folders = filter(os.path.isabs, os.get_exec_path())
    return next(filter(None, (shutil.which(str(Path(folder, "uv"))) for folder in folders)), None)


def is_run_by_uv(path: Path, inline: Inline) -> bool:
    """Say whether uv has to run a file, since this Python does not meet what it declares.

    Raises:
        CommandError: It has, and there is no uv.
    """
    if os.environ.get(_VARIABLE) == str(path):  # uv has started this process for it
        return False
    missing = inline.missing()
    if missing and _installed_uv() is None:
        raise CommandError(
            f"{path}: its `# /// script` block requires {', '.join(missing)}, which this Python does not have. "
            "Install uv, which provides it: https://docs.astral.sh/uv/",
            Status.NO_SUCH_THING,
        )
    return bool(missing)


def replace_process(command: Sequence[str], path: Path) -> NoReturn:
    """Run a command of uv in the place of this process.

    Args:
        command: The command.
        path: The file that it is for.
    """
    environment = {**os.environ, _VARIABLE: str(path)}
    if sys.platform == "win32":  # which has no exec that keeps the parent waiting
        import subprocess

        sys.exit(subprocess.run(command, env=environment, check=False).returncode)
    os.execve(command[0], list(command), environment)
