"""What a word of a command line means as the server that is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpkit.cli.statuses import CommandError
from mcpkit.cli.targets.served import Place, place_of
from mcpkit.cli.targets.target import target_of
from mcpkit.common.start import mcpkit_command

RUN = mcpkit_command("run")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "server.py").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "my server.py").touch()
    (tmp_path / "server.mjs").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("https://example.com/mcp", "https://example.com/mcp"),
        ("shop/server.py", [*RUN, "shop/server.py"]),
        ("shop/server.py:tea", [*RUN, "shop/server.py:tea"]),
        ("shop.server:tea", [*RUN, "shop.server:tea"]),
        ("my server.py", [*RUN, "my server.py"]),
        ("shop", [*RUN, "shop/server.py"]),
        ("other", "other"),
        ("server.mjs", "server.mjs"),
        ("npx -y 'a server' --flag", ["npx", "-y", "a server", "--flag"]),
    ],
)
def test_what_is_meant(word: str, meant: object) -> None:
    found = target_of(word)
    assert found == meant or [str(Path(each)) for each in found] == meant


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("", "the target is empty"),
        ("npx 'a", "the command cannot be split into words"),
        ("nothing", "nothing is no file, no URL"),
    ],
)
def test_what_means_nothing_is_told(word: str, told: str) -> None:
    with pytest.raises(CommandError, match=told):
        target_of(word)


def test_a_drive_is_no_object() -> None:
    with pytest.raises(FileNotFoundError):
        place_of(r"C:\server.py")
    assert place_of("C:server") is None


def test_a_file_in_a_package_is_imported_as_a_part_of_it(folder: Path) -> None:
    assert place_of("shop/server.py:tea") == Place(folder / "shop" / "server.py", "shop.server", "tea")
    assert place_of("shop/server.py") == Place(folder / "shop" / "server.py", "shop.server", None)
