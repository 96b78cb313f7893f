"""Requirements and commands that install mcpkit again, for every place that installers record (PEP 610)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from mcpkit._utils.installation import install_command, requirement

COMMIT = "f" * 40


@pytest.fixture
def dist_info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site" / "mcpkit-0.1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: mcpkit\nVersion: 0.1.0\n")
    monkeypatch.setattr(sys, "path", [str(folder.parent), *sys.path])
    return folder


def recorded_places(folder: Path) -> list[tuple[dict[str, Any], str]]:
    """Return recorded places with the URL that a requirement has for each; those on this machine exist."""
    folder.mkdir()
    wheel = folder / "mcpkit-0.1.0-py3-none-any.whl"
    wheel.touch()
    page = "https://git.example.org:8443/mcpkit"
    return [
        ({"url": folder.as_uri(), "dir_info": {}}, folder.as_uri()),
        ({"url": folder.as_uri(), "dir_info": {"editable": True}}, folder.as_uri()),
        ({"url": wheel.as_uri(), "archive_info": {"hashes": {"sha256": "00"}}}, wheel.as_uri()),
        ({"url": f"{page}.whl", "archive_info": {}}, f"{page}.whl"),
        ({"url": f"{page}.git", "vcs_info": {"vcs": "git", "commit_id": COMMIT}}, f"git+{page}.git@{COMMIT}"),
        (
            {"url": page, "vcs_info": {"vcs": "hg", "commit_id": "1"}, "subdirectory": "py"},
            f"hg+{page}@1#subdirectory=py",
        ),
    ]


def test_installation_requirement_names_recorded_place(dist_info: Path, tmp_path: Path) -> None:
    for name, installer in (("plain", "pip"), ("it's a#b ü%20", "uv")):
        for recorded, url in recorded_places(tmp_path / name):
            (dist_info / "direct_url.json").write_text(json.dumps(recorded))
            (dist_info / "INSTALLER").write_text(f"{installer}\n")
            extras = ["auth", "cli"]
            read = Requirement(requirement(*extras))
            assert (read.name, read.extras, read.url) == ("mcpkit", set(extras), url)
            command = install_command(*extras)
            assert command.startswith("uv pip install" if installer == "uv" else "pip install")
            assert ("--editable" in command) == recorded.get("dir_info", {}).get("editable", False)
            if "dir_info" in recorded:
                path = command.partition('"')[2].rstrip('"').partition("[")[0]
                assert Path(path).is_dir()
            else:
                assert command.endswith(f'"{requirement(*extras)}"')


@pytest.mark.parametrize(
    "recorded", [None, {"url": "file:///no/such/folder", "dir_info": {"editable": True}}]
)
def test_installation_requirement_without_place_is_name(
    recorded: dict[str, Any] | None, dist_info: Path
) -> None:
    if recorded is not None:
        (dist_info / "direct_url.json").write_text(json.dumps(recorded))
    assert requirement() == "mcpkit"
    assert requirement("cli") == "mcpkit[cli]"
    assert install_command("cli", "redis") == 'pip install "mcpkit[cli,redis]"'
