"""mcpkit new and mcpkit bundle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from mcpkit import SyncClient
from mcpkit.cli.app import run
from tests.helpers.node import node_search_path

MCPB = Path(__file__).parents[3] / "node_modules" / ".bin" / "mcpb"


SERVER = '''
# /// script
# requires-python = ">=3.10"
# dependencies = ["mcpkit"]
# ///
"""A shop."""

import os

from mcpkit import Server

shop = Server("Tea Shop", version="1.2.0", instructions="Prices of a shop.\\nAsk for tea.")


@shop.tool
def price(item: str) -> str:
    """Say what an item costs."""
    return f"{item}: 3.5 {os.environ['CURRENCY']}"


@shop.prompt
def haggle(item: str) -> str:
    """Haggle."""
    return f"Is {item} really worth it?"
'''


PROJECT = """
[project]
name = "tea-shop"
version = "2.0.1"
description = "Sells tea"
authors = [{name = "Ada", email = "ada@example.com"}]
license = "MIT"
requires-python = ">=3.11"
keywords = ["tea"]
dependencies = ["mcpkit"]

[project.urls]
Homepage = "https://example.com"
Issues = "https://example.com/issues"
Source = "https://github.com/ada/tea"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "server", raising=False)
    (tmp_path / "server.py").write_text(SERVER)
    return tmp_path


def mcpb(*arguments: str) -> str:
    if not MCPB.exists():
        pytest.skip("npm's @anthropic-ai/mcpb is not installed: make setup")
    done = subprocess.run(
        [MCPB, *arguments],
        env={**os.environ, "PATH": node_search_path()},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def manifest_of(bundle: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(ZipFile(bundle).read("manifest.json"))
    return found


def test_bundle_for_uv_is_valid(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bundle", "server.py", "--secret", "API_KEY", "--setting", "REGION=eu"]) == 0
    bundle = folder / "tea-shop-1.2.0.mcpb"
    assert capsys.readouterr().out.startswith("tea-shop-1.2.0.mcpb  ")
    assert sorted(ZipFile(bundle).namelist()) == [
        "manifest.json",
        "mcpb_main.py",
        "pyproject.toml",
        "server.py",
    ]
    mcpb("unpack", str(bundle), str(folder / "unpacked"))
    mcpb("validate", str(folder / "unpacked" / "manifest.json"))
    manifest = manifest_of(bundle)
    assert manifest["server"] == {
        "type": "uv",
        "entry_point": "mcpb_main.py",
        "mcp_config": {
            "command": "uv",
            "args": ["run", "--directory", "${__dirname}", "mcpb_main.py"],
            "env": {"API_KEY": "${user_config.api_key}", "REGION": "${user_config.region}"},
        },
    }
    assert manifest["tools"] == [{"name": "price", "description": "Say what an item costs."}]
    assert manifest["description"] == "Prices of a shop."
    told = (folder / "unpacked" / "pyproject.toml").read_text()
    assert 'dependencies = ["mcpkit"]' in told


def test_bundle_vendor_starts_without_installed_packages(folder: Path) -> None:
    assert run(["bundle", "server.py:shop", "--vendor", "--setting", "CURRENCY", "-o", "shop.mcpb"]) == 0
    mcpb("unpack", "shop.mcpb", "unpacked")
    mcpb("validate", "unpacked/manifest.json")
    manifest = manifest_of(folder / "shop.mcpb")
    assert manifest["compatibility"] == {
        "platforms": [sys.platform],
        "runtimes": {"python": f">=3.{sys.version_info[1]},<3.{sys.version_info[1] + 1}"},
    }
    python = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info[1]}"
    command = [str(python), "-S", "-E", str(folder / "unpacked" / "mcpb_main.py")]
    with SyncClient(command, env={"CURRENCY": "EUR"}, cwd="/") as client:
        assert client.call_tool("price", {"item": "tea"}).text == "tea: 3.5 EUR"


def test_bundle_is_reproducible(folder: Path) -> None:
    for name in ("a.mcpb", "b.mcpb"):
        assert run(["bundle", "server.py", "-o", name]) == 0
    assert (folder / "a.mcpb").read_bytes() == (folder / "b.mcpb").read_bytes()


def test_bundle_registry_writes_server_json(folder: Path) -> None:
    (folder / "pyproject.toml").write_text(PROJECT)
    assert run([
        "bundle", "server.py", "--secret", "API_KEY", "--registry", "io.github.ada/tea", "--pypi", "tea-shop",
        "--download", "https://example.com/tea.mcpb", "--remote", "https://example.com/mcp",
    ]) == 0  # fmt: skip
    variables = [{"name": "API_KEY", "isRequired": True, "isSecret": True}]
    told = json.loads((folder / "server.json").read_text())
    digest = told["packages"][1].pop("fileSha256")
    assert len(digest) == 64
    assert told == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.ada/tea",
        "title": "Tea Shop",
        "description": "Sells tea",
        "version": "2.0.1",
        "websiteUrl": "https://example.com",
        "repository": {"url": "https://github.com/ada/tea", "source": "github"},
        "packages": [
            {
                "registryType": "pypi",
                "identifier": "tea-shop",
                "version": "2.0.1",
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "environmentVariables": variables,
            },
            {
                "registryType": "mcpb",
                "identifier": "https://example.com/tea.mcpb",
                "transport": {"type": "stdio"},
                "environmentVariables": variables,
            },
        ],
        "remotes": [{"type": "streamable-http", "url": "https://example.com/mcp"}],
    }


@pytest.fixture(autouse=True)
def folder_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_new_project_is_formatted_typed_and_tested(folder_new: Path) -> None:
    description = 'Says "good" \'day\' \\ and """bye""", to whoever asks ' + "politely " * 8
    told = ["--description", description]
    assert run(["new", "Good Day", *told]) == 0
    project = folder_new / "Good Day"
    for command in (
        ["ruff", "format", "--check", "."],
        ["ruff", "check", "."],
        ["mypy"],
        ["pytest", "-q", "-p", "no:cacheprovider"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert (project / "good_day" / "server.py").is_file()
    assert "${{ matrix.python }}" in (project / ".github" / "workflows" / "ci.yml").read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "json",
            "the package name json conflicts with another package. Choose another name, for example json-server",
        ),
        ("mcpkit", "the package name mcpkit conflicts with another package"),
        ("9lives", "'9lives' is not a valid project name"),
        ("taken", "taken exists and is not an empty folder"),
    ],
)
def test_new_invalid_names_are_rejected(
    name: str, message: str, folder_new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder_new / "taken").mkdir()
    (folder_new / "taken" / "file").touch()
    assert run(["new", name]) == 1
    assert message in capsys.readouterr().err
    assert [path.name for path in folder_new.iterdir()] == ["taken"]


def test_bundle_file_that_cannot_be_imported_is_rejected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "server.py").rename(folder / "tea-server.py")
    assert run(["bundle", "tea-server.py"]) == 1
    assert "tea-server.py cannot be imported" in capsys.readouterr().err


def test_bundle_warns_of_undeclared_and_large_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "server.py").write_text(f"import hypothesis\n{SERVER}")
    (folder / "pyproject.toml").write_text(
        PROJECT.replace('["mcpkit"]', '["mcpkit @ file:///opt/mcpkit"]').replace("[project.urls]", "[x]")
    )
    with (folder / "model.bin").open("wb") as file:
        file.truncate(6_000_000)
    assert run(["bundle", "server.py", "-o", "shop.mcpb"]) == 0
    said = capsys.readouterr().err
    assert "model.bin (6.0 MB) is not included. Add --large" in said
    assert "server.py:1 imports hypothesis, which no declared dependency provides" in said
    assert "mcpkit @ file:///opt/mcpkit exists only on this machine. Add --vendor" in said
    assert "model.bin" not in ZipFile(folder / "shop.mcpb").namelist()
    assert run(["bundle", "server.py", "-o", "shop.mcpb", "--large"]) == 0
    assert "model.bin" in ZipFile(folder / "shop.mcpb").namelist()
