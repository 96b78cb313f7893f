"""mcpkit new and mcpkit bundle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
import tomlkit

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
        assert client.call("price", {"item": "tea"}).text == "tea: 3.5 EUR"


def test_bundle_takes_metadata_and_files_of_project(folder: Path) -> None:
    (folder / "pyproject.toml").write_text(PROJECT)
    package = folder / "src" / "tea"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (folder / "server.py").rename(package / "server.py")
    for name in (".env", "secret.pem", "tests/test_tea.py", "notes.txt", "kept.log", "data/tea.csv"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    (folder / ".gitignore").write_text("notes.txt\n")
    (folder / ".mcpbignore").write_text("!kept.log\n")
    assert run(["bundle", "src/tea/server.py"]) == 0
    bundle = folder / "tea-shop-2.0.1.mcpb"
    names = ZipFile(bundle).namelist()
    assert sorted(names) == [
        ".mcpbignore", "data/tea.csv", "kept.log", "manifest.json", "mcpb_main.py", "pyproject.toml",
        "src/tea/__init__.py", "src/tea/server.py",
    ]  # fmt: skip
    assert "from tea.server import shop" in ZipFile(bundle).read("mcpb_main.py").decode()
    told = manifest_of(bundle)
    assert told["author"] == {"name": "Ada", "email": "ada@example.com"}
    assert told["support"] == "https://example.com/issues"
    assert told["repository"] == {"type": "git", "url": "https://github.com/ada/tea"}
    assert told["compatibility"] == {
        "platforms": ["darwin", "win32", "linux"],
        "runtimes": {"python": ">=3.11"},
    }
    mcpb("unpack", str(bundle), str(folder / "unpacked"))
    mcpb("validate", str(folder / "unpacked" / "manifest.json"))


def test_bundle_is_reproducible(folder: Path) -> None:
    for name in ("a.mcpb", "b.mcpb"):
        assert run(["bundle", "server.py", "-o", name]) == 0
    assert (folder / "a.mcpb").read_bytes() == (folder / "b.mcpb").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--setting", "A-B"], "'A-B' is no name of a variable"),
        (["--secret", "KEY=1234"], "a secret has no default"),
        (["--version", "1.x"], "the version has to be one such as 1.0.2, got '1.x'"),
        (["--pypi", "shop"], "--pypi, --download and --remote are for server.json"),
        (["--registry", "shop", "--pypi", "shop"], "the name in the registry is one such as"),
        (["--registry", "io.x/shop", "--description", "x" * 101], "the registry takes 1 to 100 characters"),
        (["--registry", "io.x/shop", "--remote", "ftp://x"], "server.json: remotes.0.url: "),
    ],
)
def test_bundle_invalid_options_exit_with_message(
    arguments: list[str], told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bundle", "server.py", *arguments]) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("dependencies", "status", "told"),
    [
        (["mcpkit", "no-such-thing>=1"], 2, "the server needs no-such-thing>=1, which is not installed here"),
        (["mcpkit", "click<1"], 1, "the server needs click<1, and "),
        (["mcpkit", "!"], 1, "'!' is no requirement"),
    ],
)
def test_bundle_vendor_uninstalled_dependency_is_error(
    dependencies: list[str], status: int, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "server.py").write_text(SERVER.replace('["mcpkit"]', json.dumps(dependencies)))
    assert run(["bundle", "server.py", "--vendor"]) == status
    assert told in capsys.readouterr().err
    assert not list(folder.glob("*.mcpb"))


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


def test_bundle_server_that_fails_to_start_is_packed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "server.py").write_text(
        "from contextlib import asynccontextmanager\nfrom mcpkit import Server\n\n\n@asynccontextmanager\n"
        'async def fail(server):\n    raise RuntimeError("no key")\n    yield\n\n\n'
        'server = Server("x", version="1.0.0", lifespan=fail)\n\n\n@server.tool\ndef t() -> None: ...\n'
    )
    assert run(["bundle", "server.py"]) == 0
    assert "the manifest names no tools" in capsys.readouterr().err
    assert manifest_of(folder / "x-1.0.0.mcpb")["tools_generated"] is True


def test_bundle_file_that_cannot_be_imported_is_rejected(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "server.py").rename(folder / "tea-server.py")
    assert run(["bundle", "tea-server.py"]) == 1
    assert "tea-server.py cannot be imported by its name" in capsys.readouterr().err


def test_bundle_warns_of_undeclared_and_large_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "server.py").write_text(f"import hypothesis\n{SERVER}")
    (folder / "pyproject.toml").write_text(
        PROJECT.replace('["mcpkit"]', '["mcpkit @ file:///opt/mcpkit"]').replace("[project.urls]", "[x]")
    )
    with (folder / "model.bin").open("wb") as file:
        file.truncate(6_000_000)
    assert run(["bundle", "server.py", "-o", "shop.mcpb"]) == 0
    said = capsys.readouterr().err
    assert "model.bin (6.0 MB) is left out. Add --large" in said
    assert "server.py:1 imports hypothesis, which no declared dependency brings" in said
    assert "mcpkit @ file:///opt/mcpkit is on this machine alone. Add --vendor" in said
    assert "model.bin" not in ZipFile(folder / "shop.mcpb").namelist()
    assert run(["bundle", "server.py", "-o", "shop.mcpb", "--large"]) == 0
    assert "model.bin" in ZipFile(folder / "shop.mcpb").namelist()


@pytest.fixture(autouse=True)
def folder_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "description", [None, 'Says "good" \'day\' \\ and """bye""", to whoever asks ' + "politely " * 8]
)
def test_new_project_is_formatted_typed_and_tested(description: str | None, folder_new: Path) -> None:
    told = [] if description is None else ["--description", description]
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
    ("name", "told"),
    [
        ("json", "a package called json would hide another: write json-server"),
        ("mcpkit", "a package called mcpkit would hide another"),
        ("9lives", "'9lives' can be no name of a project"),
        ("taken", "taken is there already, and is not an empty folder"),
    ],
)
def test_new_invalid_names_are_rejected(
    name: str, told: str, folder_new: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder_new / "taken").mkdir()
    (folder_new / "taken" / "file").touch()
    assert run(["new", name]) == 1
    assert told in capsys.readouterr().err
    assert [path.name for path in folder_new.iterdir()] == ["taken"]


def test_new_uses_empty_folder(folder_new: Path) -> None:
    (folder_new / "deep" / "tea").mkdir(parents=True)
    assert run(["new", "deep/tea"]) == 0
    assert (folder_new / "deep" / "tea" / "tea" / "server.py").is_file()


@pytest.mark.parametrize("recorded", [None, {"url": "https://example.com/mcpkit.whl", "archive_info": {}}])
def test_new_dependencies_name_mcpkit_as_installed(
    recorded: dict[str, object] | None, folder_new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = folder_new / "site" / "mcpkit-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: mcpkit\nVersion: 0.1.0\n")
    if recorded is not None:
        (metadata / "direct_url.json").write_text(json.dumps(recorded))
    monkeypatch.setattr(sys, "path", [str(metadata.parent), *sys.path])
    assert run(["new", "tea"]) == 0
    project = tomlkit.parse((folder_new / "tea" / "pyproject.toml").read_text()).unwrap()
    place = "" if recorded is None else " @ https://example.com/mcpkit.whl"
    assert project["project"]["dependencies"] == [f"mcpkit{place}"]
    assert f"mcpkit[cli]{place}" in project["project"]["optional-dependencies"]["dev"]
    allowed = project["tool"]["hatch"].get("metadata", {}).get("allow-direct-references", False)
    assert allowed == (recorded is not None)
    readme = (folder_new / "tea" / "README.md").read_text()
    assert 'pip install --editable ".[dev]"' in readme
    assert "--group" not in readme
