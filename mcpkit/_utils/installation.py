"""Requirement and command that install mcpkit again as it is installed here, with extras or without."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import Required, TypedDict

# Imports inside functions keep the start of servers fast: only error messages and `mcpkit new` need them.


class _DirectUrl(TypedDict, total=False):
    """The file `direct_url.json` of an installation (PEP 610)."""

    url: Required[str]
    dir_info: dict[str, bool]
    vcs_info: dict[str, str]
    subdirectory: str


def requirement(*extras: str) -> str:
    """Return the requirement for mcpkit as it is installed here, such as `mcpkit[cli]` (PEP 508).

    After an installation from a path, a URL or a repository it names that place, which installers record in
    `direct_url.json` (PEP 610).

    Args:
        extras: Extras of mcpkit that are needed.
    """
    name = _with_extras("mcpkit", extras)
    place = _direct_url()
    return name if place is None else f"{name} @ {_reference(place)}"


def install_command(*extras: str) -> str:
    """Return the command that installs mcpkit with extras into this environment, for a shell of any system.

    Args:
        extras: Extras of mcpkit that are needed.
    """
    place = _direct_url()
    installer = "uv pip install" if (_metadata("INSTALLER") or "").strip() == "uv" else "pip install"
    if place is None or (folder := _local_path(place)) is None or "dir_info" not in place:
        return f'{installer} "{requirement(*extras)}"'
    editable = " --editable" if place["dir_info"].get("editable") else ""
    return f'{installer}{editable} "{_with_extras(str(folder), extras)}"'


def _with_extras(name: str, extras: tuple[str, ...]) -> str:
    return f"{name}[{','.join(extras)}]" if extras else name


def _metadata(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution("mcpkit").read_text(name)
    except PackageNotFoundError:  # it is on the path without being installed
        return None


def _direct_url() -> _DirectUrl | None:
    """Return where mcpkit was installed from; None for an index, or for a path that is gone."""
    import json

    text = _metadata("direct_url.json")
    place: _DirectUrl | None = json.loads(text) if text else None
    if place is None or ((path := _local_path(place)) is not None and not path.exists()):
        return None
    return place


def _local_path(place: _DirectUrl) -> Path | None:
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    parts = urlsplit(place["url"])
    if parts.scheme != "file":
        return None
    host = f"//{parts.netloc}" if parts.netloc not in {"", "localhost"} else ""  # a share of Windows
    return Path(url2pathname(host + parts.path))


def _reference(place: _DirectUrl) -> str:
    url = place["url"]
    if source := place.get("vcs_info"):
        url = f"{source['vcs']}+{url}@{source['commit_id']}"
    subdirectory = place.get("subdirectory")
    return f"{url}#subdirectory={subdirectory}" if subdirectory else url
