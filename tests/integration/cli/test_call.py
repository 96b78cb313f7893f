"""mcpkit call: results, errors, files, questions, users, and results that deviate from the schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpkit import Server
from mcpkit.auth import StaticTokens
from tests.helpers.serving import in_thread_at
from tests.integration.cli.workbench_server import PIXEL

Run = Callable[..., tuple[int, str, str]]


ERAS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


@pytest.mark.parametrize(
    ("arguments", "status", "out", "err"),
    [
        (["add", "first=2"], 0, "3\n", ""),
        (["add", "--args", '{"first": 40}', "second=2"], 0, "42\n", ""),
        (["echo", "value:=[1, null]"], 0, '{"value":[1,null]}\n', ""),
        (["work"], 0, "worked\n", ""),
        (["work", "-v", "--log-level", "warning"], 0, "worked\n",
         "progress: 1/2 half\nwarning: careful\nprogress: 2/2 done\n"),
        (["fail"], 5, "", "it does not work\n"),
        (["fail", "kind=protocol"], 5, "", 'mcpkit: out of order\n{\n  "since": 1984\n}\n'),
        (["add", "first=two"], 5, "",
         'mcpkit: first: expected integer, got "two"\nadd takes:\n  first   integer      required  The one.\n'),
        (["ad"], 2, "", "mcpkit: no such tool: ad; did you mean add?\n"),
        (["nothing like it"], 2, "", "mcpkit: no such tool: nothing like it; the server has add, make.order, "),
        (["add", "first"], 1, "", "mcpkit: arguments must be key=value"),
        (["add", "--cwd", ".", "first=1"], 1, "", "mcpkit: a URL does not have the option cwd="),
        (["add", "first=1", "--revision", "2020-01-01"], 1, "", "mcpkit: "),
    ],
)  # fmt: skip
def test_call_writes_results_and_errors_with_status(
    mcpkit: Run, url: str, arguments: list[str], status: int, out: str, err: str
) -> None:
    ended = mcpkit("call", url, *arguments)
    assert ended[:2] == (status, out)
    assert ended[2].startswith(err)
    assert err or not ended[2]


def test_call_saves_media_without_overwriting(mcpkit: Run, url: str, tmp_path: Path) -> None:
    (tmp_path / "draw.png").write_bytes(b"mine")
    status, out, err = mcpkit("call", url, "draw", "--out", str(tmp_path))
    assert status == 0
    assert out == "here:\na note\nhttps://example.com/report  report, text/html\n"
    names = ["draw-2.png", "draw-3.png", "draw.wav", "data.bin"]
    assert [line.split(" (")[0] for line in err.splitlines()] == [
        f"saved {tmp_path / name}" for name in names
    ]
    assert (tmp_path / "draw.png").read_bytes() == b"mine"
    assert (tmp_path / "draw-2.png").read_bytes() == PIXEL
    assert (tmp_path / "data.bin").read_bytes() == b"\0\1\2"


@ERAS
def test_call_answer_option_answers_elicitation(mcpkit: Run, url: str, revision: str) -> None:
    plan = ("call", url, "plan", "--revision", revision)
    status, out, _ = mcpkit(*plan, "--answer", "city=Oslo", "--answer", "is_paid=true", "--answer", "days=5")
    assert status == 0
    assert json.loads(out) == {"city": "Oslo", "days": 5, "style": "food", "is_paid": True}
    status, out, err = mcpkit(*plan, "--answer", "days=50")
    assert (status, out) == (1, "")
    assert err.startswith("mcpkit: --answer days: expected an integer from 1 to 30, got 50")


@ERAS
def test_call_without_terminal_cancels_elicitation_with_hint(mcpkit: Run, url: str, revision: str) -> None:
    status, out, err = mcpkit("call", url, "plan", "--revision", revision, "--answer", "city=Oslo")
    assert (status, out) == (0, "no trip: cancel\n")
    assert err == (
        "mcpkit: workbench requests: Where shall it go?\n"
        "mcpkit: no terminal to enter days (integer, optional), style (one of these, optional), is_paid (y or n), so "
        "the request is cancelled. Add --answer is_paid=VALUE\n"
    )
    status, out, err = mcpkit("call", url, "pay", "--revision", revision)
    assert (status, out) == (0, "not paid: cancel\n")
    assert "It wants you to open a page at pay.example.com:\n  https://pay.example.com/7\n" in err


@ERAS
def test_call_waits_for_task_and_answers_its_elicitation(mcpkit: Run, url: str, revision: str) -> None:
    report = ("call", url, "report", "--revision", revision)
    assert mcpkit(*report, "--answer", "value=Ada") == (0, "a report for Ada\n", "")
    status, out, err = mcpkit(*report, "-v")
    assert (status, out) == (0, "no report\n")
    assert "requests: In whose name?" in err
    status, out, err = mcpkit("call", url, "report", "--revision", "2025-06-18")
    assert (status, out) == (5, "")


def test_call_unauthorized_exits_with_status_3(
    mcpkit: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # where nobody has logged in
    token, _ = StaticTokens.make()
    closed = Server("closed", auth=StaticTokens({token: "ada"}))

    @closed.tool
    def whoami() -> str:
        """Say who asks."""
        return "ada"

    with in_thread_at(lambda url: closed.asgi(public_url=f"{url}/mcp")) as origin:
        status, out, err = mcpkit("call", f"{origin}/mcp", "whoami")
        assert (status, out) == (3, ""), err
        assert mcpkit("call", f"{origin}/mcp", "whoami", "--token", f"{token}x")[0] == 3
        assert mcpkit("call", f"{origin}/mcp", "whoami", "--token", token)[:2] == (0, "ada\n")


SERVER = """
import json, sys
results = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    result = results.get(method)
    if method == "initialize":
        capabilities = {"tools": {}, "resources": {}, "prompts": {}}
        info = {"name": "s", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
    answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


SERVER_AS = '''
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


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes_with_users.py").write_text(SERVER_AS)
    monkeypatch.delitem(sys.modules, "notes_with_users", raising=False)
    return "notes_with_users.py"


def test_as_option_applies_scopes_and_visibility_of_user(
    mcpkit: Callable[..., tuple[int, str, str]], file: str
) -> None:
    status, out, err = mcpkit("call", file, "write", "--as", "ada", "--scopes", "read write")
    assert (status, out) == (0, "ada=ada ['read', 'write']\n"), err
    assert "imported" in err
    status, out, err = mcpkit("call", file, "write", "--as", "ada", "--scopes", "read")
    assert (status, out) == (5, "")
    assert "write" in err
    assert mcpkit("read", file, "notes://mine", "--as", "ada")[:2] == (0, "of ada\n")
    assert mcpkit("read", file, "notes://mine", "--as", "bob")[0] == 2
    assert "notes://mine" in mcpkit("list", file, "resources", "--as", "ada")[1]
    assert "notes://mine" not in mcpkit("list", file, "resources", "--as", "bob")[1]
    assert (
        mcpkit("call", file, "write", "--as", "ada", "--scopes", "write", "--all-revisions", "--yes")[0] == 0
    )


def test_call_transport_option_allows_no_other_transport(mcpkit: Run, url: str) -> None:
    assert mcpkit("call", url, "add", "first=1", "--http")[:2] == (0, "2\n")
    status, out, err = mcpkit("call", url, "add", "first=1", "--sse")
    assert (status, out) == (4, ""), err
    status, _, err = mcpkit("call", "python server.py", "add", "first=1", "--sse")
    assert (status, err) == (1, "mcpkit: --sse needs a URL, and the target is a process. Omit --sse\n")


@ERAS
def test_call_sample_text_and_root_options_answer_requests(
    mcpkit: Run, url: str, revision: str, tmp_path: Path
) -> None:
    to = ("--revision", revision)
    assert mcpkit("call", url, "praise", "--sample-text", "Lovely!", *to)[:2] == (0, "Lovely!\n")
    assert mcpkit("call", url, "folders", "--root", str(tmp_path), *to)[1] == f'["{tmp_path.as_uri()}"]\n'
    assert mcpkit("call", url, "praise", *to)[0] == 5
    assert mcpkit("call", url, "folders", *to)[0] == 5
    assert mcpkit("call", url, "folders", "--root", str(tmp_path / "absent"), *to)[0] == 2
