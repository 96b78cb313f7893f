"""mcpkit call: results, errors, files, questions, users, and options of requests."""

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.cli.workbench_server import PIXEL

Run = Callable[..., tuple[int, str, str]]

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
