"""The package itself: its version, names that are imported on first use, and how to install it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__version__ = "0.1.0"


def late_names(module: dict[str, object], homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a module: it imports a name on first use, and keeps it in the module (PEP 562).

    Args:
        module: The `globals()` of the module.
        homes: The names of each module, separated by spaces, by module, such as `{".client": "Client connect"}`.
    """
    places = {name: home for home, names in homes.items() for name in names.split()}

    def find(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        found = module[name] = getattr(import_module(places[name], str(module["__package__"])), name)
        return found

    return find


# Installation. Only error messages and `mcpkit new` need it, so the imports are inside the functions.


def requirement(*extras: str) -> str:
    """Return the requirement for mcpkit as it is installed here, such as `mcpkit[cli]` (PEP 508).

    After an installation from a path, a URL or a repository it names that place, which installers record in
    `direct_url.json` (PEP 610).

    Args:
        extras: Extras of mcpkit that are needed.
    """
    name = f"mcpkit[{','.join(extras)}]" if extras else "mcpkit"
    place = _direct_url()
    if place is None:
        return name
    url = place["url"]
    if source := place.get("vcs_info"):
        url = f"{source['vcs']}+{url}@{source['commit_id']}"
    if subdirectory := place.get("subdirectory"):
        url = f"{url}#subdirectory={subdirectory}"
    return f"{name} @ {url}"


def install_command(*extras: str) -> str:
    """Return the command that installs mcpkit with extras into this environment, for a shell of any system.

    Args:
        extras: Extras of mcpkit that are needed.
    """
    installer = "uv pip install" if (_metadata("INSTALLER") or "").strip() == "uv" else "pip install"
    place = _direct_url()
    folder = None if place is None or "dir_info" not in place else _local_path(place["url"])
    if place is None or folder is None:
        return f'{installer} "{requirement(*extras)}"'
    if place["dir_info"].get("editable"):
        installer += " --editable"
    return f'{installer} "{folder}[{",".join(extras)}]"' if extras else f'{installer} "{folder}"'


def missing_package(purpose: str, package: str, extra: str) -> str:
    """Return the message of an error for a package that is not installed, with the command that installs it.

    Args:
        purpose: The feature that needs it.
        package: The package.
        extra: The extra of mcpkit that installs it.
    """
    return f"{purpose} needs {package}. Run: {install_command(extra)}"


def _metadata(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution("mcpkit").read_text(name)
    except PackageNotFoundError:  # it is on the path without being installed
        return None


def _direct_url() -> dict[str, Any] | None:
    """Return where mcpkit was installed from (PEP 610); None for an index, or for a path that is gone."""
    import json

    text = _metadata("direct_url.json")
    if not text:
        return None
    place: dict[str, Any] = json.loads(text)
    path = _local_path(place["url"])
    return place if path is None or path.exists() else None


def _local_path(url: str) -> Path | None:
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    parts = urlsplit(url)
    if parts.scheme != "file":
        return None
    share = f"//{parts.netloc}" if parts.netloc not in {"", "localhost"} else ""  # of Windows
    return Path(url2pathname(share + parts.path))
