"""Dependencies in the `# /// script` block of a file (PEP 723), and uv, which installs them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from .._utils.package import requirement
from ..protocol.jsonrpc import is_array
from .exit_status import CommandError, Status

_VARIABLE: Final = "MCPKIT_SCRIPT"
"""Environment variable with the file that uv was started for, which prevents a second start."""


class ScriptMetadata(NamedTuple):
    """The `# /// script` block of a file.

    Attributes:
        path: The file.
        dependencies: The requirements (PEP 508).
        python: The versions of Python, or None.
        has_settings: Whether it has settings of uv, such as sources, which only `uv run --script` reads.
    """

    path: Path
    dependencies: tuple[str, ...]
    python: str | None
    has_settings: bool

    def needs_uv(self) -> bool:
        """Return whether uv has to run the file, since this Python does not meet the requirements.

        Raises:
            CommandError: It has to, and there is no uv.
        """
        if os.environ.get(_VARIABLE) == str(self.path):  # uv has started this process for the file
            return False
        missing = self._missing()
        if missing and _find_uv() is None:
            raise CommandError(
                f"{self.path}: its `# /// script` block requires {', '.join(missing)}, which this Python does not "
                "have. Install uv, which provides it: https://docs.astral.sh/uv/",
                Status.NO_SUCH_THING,
            )
        return bool(missing)

    def _missing(self) -> list[str]:
        """Return the requirements that this Python does not meet."""
        import platform
        from importlib.metadata import PackageNotFoundError, version

        from packaging.requirements import Requirement
        from packaging.specifiers import SpecifierSet

        missing: list[str] = []
        python = platform.python_version()
        if self.python and not SpecifierSet(self.python).contains(python, prereleases=True):
            missing.append(f"Python {self.python}")
        for text in self.dependencies:
            required = Requirement(text)
            if required.marker is not None and not required.marker.evaluate():
                continue
            try:
                is_met = required.specifier.contains(version(required.name), prereleases=True)
            except PackageNotFoundError:
                is_met = False
            if not is_met:
                missing.append(text)
        return missing

    def script_command(self, arguments: Sequence[str]) -> list[str]:
        """Return the command with which uv runs the file as a script.

        Raises:
            CommandError: There is no uv.
        """
        return [*self._uv_run(), "--script", str(self.path), *arguments]

    def mcpkit_command(self, arguments: Sequence[str]) -> list[str]:
        """Return the command with which uv installs the dependencies and runs `mcpkit`.

        Args:
            arguments: The arguments of `mcpkit`.

        Raises:
            CommandError: There is no uv, or the block has settings.
        """
        if self.has_settings:
            raise CommandError(
                f"{self.path}: only `uv run --script` reads the table [tool] of its `# /// script` block. Add to the "
                'file: if __name__ == "__main__": server.run()'
            )
        from packaging.requirements import Requirement
        from packaging.utils import canonicalize_name

        is_listed = any(canonicalize_name(Requirement(each).name) == "mcpkit" for each in self.dependencies)
        requirements = [*self.dependencies, "mcpkit[cli]" if is_listed else requirement("cli")]
        python = ["--python", self.python] if self.python else []
        packages = [word for each in dict.fromkeys(requirements) for word in ("--with", each)]
        return [*self._uv_run(), "--no-project", *python, *packages, "mcpkit", *arguments]

    def _uv_run(self) -> list[str]:
        """Return the start of the command, with uv's settings in the folder of the file, not in the current one."""
        return [uv_path(), "run", "--project", str(self.path.parent)]


def read_script_metadata(path: Path) -> ScriptMetadata | None:
    """Read the `# /// script` block of a file; None if it has none.

    Raises:
        CommandError: The block is invalid.
    """
    text = _script_block(path)
    if text is None:
        return None
    import tomlkit
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from tomlkit.exceptions import TOMLKitError

    try:
        block: Mapping[str, object] = tomlkit.parse(text).unwrap()
        listed = block.get("dependencies", [])
        python = block.get("requires-python")
        dependencies = [each for each in listed if isinstance(each, str)] if is_array(listed) else []
        if dependencies != listed:
            raise TypeError("dependencies must be a list of strings")
        if python is not None and not isinstance(python, str):
            raise TypeError("requires-python must be a string")
        for each in dependencies:
            Requirement(each)
        SpecifierSet(python or "")
    except (TOMLKitError, InvalidRequirement, InvalidSpecifier, TypeError) as error:
        raise CommandError(f"{path}: invalid `# /// script` block: {error}") from None
    return ScriptMetadata(path, tuple(dependencies), python, bool(block.get("tool")))


def _script_block(path: Path) -> str | None:
    lines = path.read_text("utf-8-sig", errors="replace").splitlines()
    blocks: list[str] = []
    for start, first in enumerate(lines):
        if first != "# /// script":
            continue
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


# uv


def uv_path() -> str:
    """Return the path of uv.

    Raises:
        CommandError: uv is not on the PATH.
    """
    program = _find_uv()
    if program is None:
        raise CommandError("uv is not on the PATH. Install it: https://docs.astral.sh/uv/")
    return program


def _find_uv() -> str | None:
    """Return the path of uv; one in the current folder, where Windows looks first, is not trusted."""
    folders = filter(os.path.isabs, os.get_exec_path())
    return next(filter(None, (shutil.which(str(Path(folder, "uv"))) for folder in folders)), None)


def replace_process(command: Sequence[str], path: Path) -> NoReturn:
    """Replace this process by a command of uv.

    Args:
        command: The command.
        path: The file that it runs.
    """
    environment = {**os.environ, _VARIABLE: str(path)}
    if sys.platform == "win32":  # no exec there keeps the parent waiting
        import subprocess

        sys.exit(subprocess.run(command, env=environment, check=False).returncode)
    os.execve(command[0], list(command), environment)
