"""The interpreters that the peers run on: one environment for each CPython, with mcpkit in it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
NODE = BENCH / "peers" / "node"
REQUIREMENTS = BENCH / "peers" / "requirements.txt"


def interpreter(version: str) -> str:
    """Return the path of the CPython that `version` names: a path, or a version such as "3.13"."""
    if os.sep in version:
        return version
    on_path = shutil.which(f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = [str(path) for path in sorted(pyenv.glob(f"{version}*/bin/python"), reverse=True)]
    for candidate in [*([on_path] if on_path else []), *installed]:
        if subprocess.run([candidate, "-c", ""], check=False, capture_output=True).returncode == 0:
            return candidate
    raise SystemExit(f"no CPython {version} on PATH or below {pyenv}; give --python the path of one")


def python_with_peers(base: str) -> Path:
    """Return the interpreter of the environment made from `base`, installing what is not there as pinned.

    mcpkit is installed as users have it, from a wheel: an editable install would make its start dearer.
    """
    version = _output([base, "-c", "import platform; print(platform.python_version())"])
    home = ROOT / ".venv-bench" / version
    python = home / "bin" / "python"
    pins = _digest([REQUIREMENTS])
    if _stamp(home / "peers.stamp") != pins:
        print(f"installing the peers for CPython {version} ...", file=sys.stderr)
        _run([base, "-m", "venv", "--clear", str(home)])
        _run([str(python), "-m", "pip", "install", "-qq", "-r", str(REQUIREMENTS), str(ROOT)])
        (home / "peers.stamp").write_text(pins)
    source = _digest([ROOT / "pyproject.toml", *sorted((ROOT / "mcpkit").rglob("*.py"))])
    if _stamp(home / "mcpkit.stamp") != source:
        print(f"installing mcpkit for CPython {version} ...", file=sys.stderr)
        _run([str(python), "-m", "pip", "install", "-qq", "--force-reinstall", "--no-deps", str(ROOT)])
        (home / "mcpkit.stamp").write_text(source)
    return python


def node_with_peer() -> str | None:
    """Return the node to run the TypeScript peer with, or None, with a line on stderr, if there is none."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        print("no node and npm on PATH: the TypeScript server is left out", file=sys.stderr)
        return None
    pins = _digest([NODE / "package.json", NODE / "package-lock.json"])
    stamp = NODE / "node_modules" / ".stamp"
    if _stamp(stamp) != pins:
        print("installing the TypeScript server ...", file=sys.stderr)
        _run([npm, "ci", "--silent", "--no-audit", "--no-fund", "--prefix", str(NODE)])
        stamp.write_text(pins)
    return node


def versions(python: Path, node: str | None) -> dict[str, str]:
    """Return what was measured: package or runtime name to version."""
    names = ["mcpkit", "mcp", "fastmcp", "chuk-mcp-server", "pydantic", "anyio"]
    code = f"import json, importlib.metadata as m; print(json.dumps({{n: m.version(n) for n in {names!r}}}))"
    found: dict[str, str] = json.loads(_output([str(python), "-c", code]))
    if node is not None:
        package = json.loads(
            (NODE / "node_modules" / "@modelcontextprotocol" / "server" / "package.json").read_text()
        )
        found |= {"@modelcontextprotocol/server": package["version"], "node": _output([node, "--version"])}
    return found


def _stamp(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _output(argv: list[str]) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def _run(argv: list[str]) -> None:
    subprocess.run(argv, check=True, stdout=sys.stderr)
