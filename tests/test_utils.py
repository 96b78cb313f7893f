"""Installation of mcpkit again, for every place that installers record (PEP 610), and pickling of exceptions."""

import json
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from mcpkit import exceptions
from mcpkit._utils.package import install_command, requirement

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
def test_installation_requirement_without_place_is_name(recorded, dist_info) -> None:
    if recorded is not None:
        (dist_info / "direct_url.json").write_text(json.dumps(recorded))
    assert requirement() == "mcpkit"
    assert requirement("cli") == "mcpkit[cli]"
    assert install_command("cli", "redis") == 'pip install "mcpkit[cli,redis]"'


RAISED: list[BaseException] = [
    exceptions.ProtocolError(-32000, "out of stock", {"left": 0}),
    exceptions.ChallengeError(401, "Bearer"),
    exceptions.ResourceNotFoundError("file:///a"),
    exceptions.CallTimeoutError(2.5, has_begun=False),
    exceptions.MissingCapabilityError(["sampling"], {"sampling": {}}),
    exceptions.ClientResponseError("no", code=-1, reason="declined"),
    exceptions.ArgumentsError([]),
    exceptions.StatusError("too many requests", 429, may_have_begun=False, retry_after=3.0),
    exceptions.AuthorizationError("log in", 401, "Bearer"),
    exceptions.OutcomeUnknownError("lost"),
    exceptions.IncompleteListError("no end", [{"name": "a"}], "7"),
    exceptions.TokenStorageError("locked"),
    exceptions.ToolError("out of order"),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_exception_pickled_keeps_class_text_and_attributes(error: BaseException) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert type(copy).__module__ == "mcpkit.exceptions"
    assert (str(copy), copy.args, vars(copy)) == (str(error), error.args, vars(error))


def test_every_public_exception_has_public_module() -> None:
    assert {getattr(exceptions, name).__module__ for name in exceptions.__all__} == {"mcpkit.exceptions"}
