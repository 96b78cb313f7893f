"""mcpkit new and mcpkit bundle."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from mcpkit import SyncClient
from mcpkit.cli.app import run
from tests.helpers.node import node_search_path
from tests.helpers.tables import each_row
from tests.integration.cli.workbench_server import PIXEL

Run = Callable[..., tuple[int, str, str]]

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


def mcpb(*arguments: str) -> None:
    if not MCPB.exists():
        pytest.skip("npm's @anthropic-ai/mcpb is not installed: make setup")
    env = {**os.environ, "PATH": node_search_path()}
    ended = subprocess.run([MCPB, *arguments], env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def unpacked_manifest(bundle: str) -> dict[str, Any]:
    """Unpack a bundle, and return its manifest, which is valid."""
    mcpb("unpack", bundle, "unpacked")
    mcpb("validate", "unpacked/manifest.json")
    manifest: dict[str, Any] = json.loads(Path("unpacked/manifest.json").read_text())
    return manifest


def test_bundle_for_uv_is_valid_and_reproducible(folder: Path, mcpkit: Run) -> None:
    bundle = ("bundle", "server.py", "--secret", "API_KEY", "--setting", "REGION=eu")
    status, out, _ = mcpkit(*bundle)
    assert (status, out.split()[0]) == (0, "tea-shop-1.2.0.mcpb")
    names = ["manifest.json", "mcpb_main.py", "pyproject.toml", "server.py"]
    assert sorted(ZipFile("tea-shop-1.2.0.mcpb").namelist()) == names
    assert mcpkit(*bundle, "-o", "again.mcpb")[0] == 0
    assert Path("again.mcpb").read_bytes() == Path("tea-shop-1.2.0.mcpb").read_bytes()
    manifest = unpacked_manifest("tea-shop-1.2.0.mcpb")
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
    assert 'dependencies = ["mcpkit"]' in (folder / "unpacked" / "pyproject.toml").read_text()


def test_bundle_vendor_starts_without_installed_packages(folder: Path, mcpkit: Run) -> None:
    assert mcpkit("bundle", "server.py:shop", "--vendor", "--setting", "CURRENCY", "-o", "shop.mcpb")[0] == 0
    minor = sys.version_info[1]
    assert unpacked_manifest("shop.mcpb")["compatibility"] == {
        "platforms": [sys.platform],
        "runtimes": {"python": f">=3.{minor},<3.{minor + 1}"},
    }
    python = Path(sys.base_prefix) / "bin" / f"python3.{minor}"
    command = [str(python), "-S", "-E", str(folder / "unpacked" / "mcpb_main.py")]
    with SyncClient(command, env={"CURRENCY": "EUR"}, cwd="/") as client:
        assert client.call_tool("price", {"item": "tea"}).text == "tea: 3.5 EUR"


def test_bundle_registry_writes_server_json(folder: Path, mcpkit: Run) -> None:
    (folder / "pyproject.toml").write_text(PROJECT)
    registry = (
        "--registry", "io.github.ada/tea", "--pypi", "tea-shop", "--remote", "https://example.com/mcp",
    )  # fmt: skip
    download = ("--download", "https://example.com/tea.mcpb", "--secret", "API_KEY")
    assert mcpkit("bundle", "server.py", *registry, *download)[0] == 0
    written = json.loads((folder / "server.json").read_text())
    assert len(written["packages"][1].pop("fileSha256")) == 64
    started = {
        "transport": {"type": "stdio"},
        "environmentVariables": [{"name": "API_KEY", "isRequired": True, "isSecret": True}],
    }
    pypi = {"registryType": "pypi", "identifier": "tea-shop", "version": "2.0.1", "runtimeHint": "uvx"}
    mcpb = {"registryType": "mcpb", "identifier": "https://example.com/tea.mcpb"}
    assert written == {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.github.ada/tea",
        "title": "Tea Shop",
        "description": "Sells tea",
        "version": "2.0.1",
        "websiteUrl": "https://example.com",
        "repository": {"url": "https://github.com/ada/tea", "source": "github"},
        "packages": [pypi | started, mcpb | started],
        "remotes": [{"type": "streamable-http", "url": "https://example.com/mcp"}],
    }


@each_row(("options", "message"), [
    (("--setting", "1x=2"), "'1x' is not a valid name of an environment variable"),
    (("--secret", "API_KEY=abc"), "--secret cannot have a default"),
    (("--pypi", "tea-shop"), "--pypi, --download and --remote need --registry"),
])  # fmt: skip
def test_bundle_invalid_options_are_rejected(options, message, folder, mcpkit) -> None:
    status, out, err = mcpkit("bundle", "server.py", *options)
    assert (status, out, message in err) == (1, "", True)
    assert not list(folder.glob("*.mcpb"))


def test_bundle_registry_of_download_needs_no_description(folder: Path, mcpkit: Run) -> None:
    registry = ("--registry", "io.github.ada/tea", "--download", "https://example.com/tea.mcpb")
    assert mcpkit("bundle", "server.py", "--setting", "REGION=eu", *registry)[0] == 0
    [package] = json.loads(Path("server.json").read_text())["packages"]
    assert (package["registryType"], package["identifier"]) == ("mcpb", registry[-1])
    assert package["environmentVariables"][0]["default"] == "eu"


def test_bundle_file_that_cannot_be_imported_is_rejected(folder: Path, mcpkit: Run) -> None:
    (folder / "server.py").rename(folder / "tea-server.py")
    status, _, err = mcpkit("bundle", "tea-server.py")
    assert (status, "tea-server.py cannot be imported" in err) == (1, True)


def test_bundle_warns_of_undeclared_and_large_files(folder: Path, mcpkit: Run) -> None:
    (folder / "server.py").write_text(f"import hypothesis\n{SERVER}")
    project = PROJECT.replace('["mcpkit"]', '["mcpkit @ file:///opt/mcpkit"]').replace(
        "[project.urls]", "[x]"
    )
    (folder / "pyproject.toml").write_text(project)
    with (folder / "model.bin").open("wb") as file:
        file.truncate(6_000_000)
    status, _, err = mcpkit("bundle", "server.py", "-o", "shop.mcpb")
    assert status == 0
    assert "model.bin (6.0 MB) is not included. Add --large" in err
    assert "server.py:1 imports hypothesis, which no declared dependency provides" in err
    assert "mcpkit @ file:///opt/mcpkit exists only on this machine. Add --vendor" in err
    assert "model.bin" not in ZipFile("shop.mcpb").namelist()
    assert mcpkit("bundle", "server.py", "-o", "shop.mcpb", "--large")[0] == 0
    assert "model.bin" in ZipFile("shop.mcpb").namelist()


@pytest.mark.parametrize(
    "check",
    ["ruff format --check .", "ruff check .", "mypy", "pytest -q -p no:cacheprovider"],
    ids=lambda check: check.partition(" -")[0],
)
def test_new_project_is_formatted_typed_and_tested(new_project: Path, check: str) -> None:
    command = [sys.executable, "-m", *check.split()]
    ended = subprocess.run(command, cwd=new_project, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (new_project / "good_day" / "server.py").is_file()
    assert "${{ matrix.python }}" in (new_project / ".github" / "workflows" / "ci.yml").read_text()


@pytest.fixture(scope="module")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a long name and description."""
    folder = tmp_path_factory.mktemp("new")
    description = 'Says "good" \'day\' \\ and """bye""", to all users ' + "politely " * 8
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["new", "Good Day", "--description", description]) == 0
    return folder / "Good Day"


@pytest.mark.parametrize(("name", "message"), [
    ("json", "json conflicts with another package. Choose another name, for example json-server"),
    ("mcpkit", "the package name mcpkit conflicts with another package"),
    ("9lives", "'9lives' is not a valid project name"),
    ("taken", "taken exists and is not an empty folder"),
])  # fmt: skip
def test_new_invalid_names_are_rejected(name: str, message: str, tmp_path, mcpkit: Run, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    status, _, err = mcpkit("new", name)
    assert (status, message in err) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


# mcpkit call: results, errors, files, questions, users, and options of requests


PROGRESS = "progress: 1/2 half\nwarning: careful\nprogress: 2/2 done\n"
NO_INTEGER = (
    'mcpkit: first: expected integer, got "two"\nadd takes:\n  first   integer      required  The one.\n'
)


@pytest.mark.parametrize(("words", "status", "out", "err"), [
    ("add first=2 --http", 0, "3\n", ""),
    ("add --args '{\"first\": 40}' second=2", 0, "42\n", ""),
    ("echo 'value:=[1, null]'", 0, '{"value":[1,null]}\n', ""),
    ("work", 0, "worked\n", ""),
    ("work -v --log-level warning", 0, "worked\n", PROGRESS),
    ("fail", 5, "", "it does not work\n"),
    ("fail kind=protocol", 5, "", 'mcpkit: out of order\n{\n  "since": 1984\n}\n'),
    ("add first=two", 5, "", NO_INTEGER),
    ("ad", 2, "", "mcpkit: no such tool: ad; did you mean add?\n"),
    (
        "'nothing like it'",
        2,
        "",
        "mcpkit: no such tool: nothing like it; the server has add, make.order, ",
    ),
    ("add first", 1, "", "mcpkit: arguments must be key=value"),
    ("add --cwd . first=1", 1, "", "mcpkit: a URL does not have the option cwd="),
    ("add first=1 --revision 2020-01-01", 1, "", "mcpkit: "),
    ("add first=1 --sse", 4, "", "mcpkit: "),
    ("report --revision 2025-06-18", 5, "", "mcpkit: "),
])  # fmt: skip
def test_call_writes_results_and_errors_with_status(mcpkit, url, words, status, out, err) -> None:
    ended = mcpkit("call", url, *shlex.split(words))
    assert ended[:2] == (status, out)
    assert ended[2].startswith(err)
    assert err or not ended[2]


def test_call_transport_option_of_a_process_is_refused(mcpkit: Run) -> None:
    message = "mcpkit: --sse needs a URL, and the target is a process. Omit --sse\n"
    assert mcpkit("call", "python server.py", "add", "first=1", "--sse") == (1, "", message)


def test_call_saves_media_without_overwriting(mcpkit: Run, url: str, tmp_path: Path) -> None:
    (tmp_path / "draw.png").write_bytes(b"mine")
    status, out, err = mcpkit("call", url, "draw", "--out", str(tmp_path))
    assert (status, out) == (0, "here:\na note\nhttps://example.com/report  report, text/html\n")
    names = ["draw-2.png", "draw-3.png", "draw.wav", "data.bin"]
    lines = [line.split(" (")[0] for line in err.splitlines()]
    assert lines == [f"saved {tmp_path / name}" for name in names]
    contents = [(tmp_path / name).read_bytes() for name in ("draw.png", "draw-2.png", "data.bin")]
    assert contents == [b"mine", PIXEL, b"\0\1\2"]


def test_call_answer_option_answers_elicitation(mcpkit: Run, url: str, revision: str) -> None:
    plan = ("call", url, "plan", "--revision", revision)
    status, out, _ = mcpkit(*plan, "--answer", "city=Oslo", "--answer", "is_paid=true", "--answer", "days=5")
    assert status == 0
    assert json.loads(out) == {"city": "Oslo", "days": 5, "style": "food", "is_paid": True}
    status, out, err = mcpkit(*plan, "--answer", "days=50")
    assert (status, out) == (1, "")
    assert err.startswith("mcpkit: --answer days: expected an integer from 1 to 30, got 50")


def test_call_without_terminal_cancels_elicitation_with_hint(mcpkit: Run, url: str, revision: str) -> None:
    ended = mcpkit("call", url, "plan", "--revision", revision, "--answer", "city=Oslo")
    assert ended[:2] == (0, "no trip: cancel\n")
    fields = "days (integer, optional), style (one of these, optional), is_paid (y or n)"
    assert ended[2].splitlines() == [
        "mcpkit: workbench requests: Where shall it go?",
        f"mcpkit: no terminal to enter {fields}, so the request is cancelled. Add --answer is_paid=VALUE",
    ]
    status, out, err = mcpkit("call", url, "pay", "--revision", revision)
    assert (status, out) == (0, "not paid: cancel\n")
    assert "It wants you to open a page at pay.example.com:\n  https://pay.example.com/7\n" in err


def test_call_waits_for_task_and_answers_its_elicitation(mcpkit: Run, url: str, revision: str) -> None:
    report = ("call", url, "report", "--revision", revision)
    assert mcpkit(*report, "--answer", "value=Ada") == (0, "a report for Ada\n", "")
    status, out, err = mcpkit(*report, "-v")
    assert (status, out) == (0, "no report\n")
    assert "requests: In whose name?" in err


SERVER_WITH_USERS = '''
from mcpkit import Access, Context, Server
from mcpkit.auth import StaticTokens

print("imported")
server = Server("notes", auth=StaticTokens({StaticTokens.make()[0]: "backup"}))


@server.tool(scopes={"write"})
def write(ctx: Context) -> str:
    """Write."""
    return f"{ctx.principal.id}={ctx.principal.subject} {sorted(ctx.principal.scopes)}"


@server.resource("notes://mine", access=Access(visible=lambda principal: principal.id == "ada"))
def mine(ctx: Context) -> str:
    """The user's own."""
    return f"of {ctx.principal.id}"
'''


def test_as_option_applies_scopes_and_visibility_of_user(mcpkit: Run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "notes_with_users.py"
    file.write_text(SERVER_WITH_USERS)
    call = ("call", str(file), "write", "--as", "ada", "--scopes")
    status, out, err = mcpkit(*call, "read write")
    assert (status, out, "imported" in err) == (0, "ada=ada ['read', 'write']\n", True)
    status, out, err = mcpkit(*call, "read")
    assert (status, out, "write" in err) == (5, "", True)
    assert mcpkit(*call, "write", "--all-revisions", "--yes")[0] == 0
    for user, read, is_listed in (("ada", (0, "of ada\n"), True), ("bob", (2, ""), False)):
        assert mcpkit("read", str(file), "notes://mine", "--as", user)[:2] == read
        assert ("notes://mine" in mcpkit("list", str(file), "resources", "--as", user)[1]) == is_listed


def test_call_sample_text_and_root_options_answer_requests(mcpkit, url, revision, tmp_path) -> None:
    call = ("call", url, "--revision", revision)
    assert mcpkit(*call, "praise", "--sample-text", "Lovely!")[:2] == (0, "Lovely!\n")
    assert mcpkit(*call, "folders", "--root", str(tmp_path))[1] == f'["{tmp_path.as_uri()}"]\n'
    assert mcpkit(*call, "praise")[0] == mcpkit(*call, "folders")[0] == 5
    assert mcpkit(*call, "folders", "--root", str(tmp_path / "absent"))[0] == 2
