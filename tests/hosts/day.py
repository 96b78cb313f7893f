"""A day of somebody who writes a server: from an empty folder to a bundle, with two hosts that stay open all the while.

Prints what is done and what is seen. Needs tmux. Ends with an error as soon as something is not as it should be."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from host import TIME_OUT, Sat, Seat, processes, sit_down, terminals, until
from models import Obeying
from run import HOSTS

from mcpkit.cli.configurations.places import file_of, host_of
from mcpkit.cli.configurations.reading import Document
from tests.helpers.serving import in_thread


@dataclass(frozen=True)
class Edit:
    """An edit, and the call that shows it.

    Attributes:
        what: What is done.
        tool: The tool that is called afterwards.
        arguments: What it is given.
        answer: What it answers; empty where the file is broken.
        changes: Texts of the file, and what comes in their place.
        added: What comes to the end of the file.
        is_seen_in_lists: Whether a host has to list the tools again to make the call.
    """

    what: str
    tool: str
    arguments: dict[str, object]
    answer: str
    changes: dict[str, str] = field(default_factory=dict)
    added: str = ""
    is_seen_in_lists: bool = False

    def applied_to(self, code: str) -> str:
        """Return the file as it is after this."""
        for before, after in self.changes.items():
            assert code.count(before) == 1, f"{before!r} is not once in the file"
            code = code.replace(before, after)
        return code + self.added


SIGN_IN = '''

@server.tool
def sign_in(name: str) -> str:
    """Write down who has come.

    Args:
        name: Who it is.
    """
    return f"{name} is in"
'''


MINUTES = '''

@server.tool(annotations={"readOnlyHint": True})
def minutes(start: str, end: str) -> int:
    """Count the minutes between two times of a day.

    Args:
        start: From when, such as 09:30.
        end: Until when, such as 11:00.
    """
    first, last = (int(time[:2]) * 60 + int(time[3:]) for time in (start, end))
    return last - first
'''


BADGE = '''

@dataclass
class Badge:
    """What a visitor wears."""

    line: str


@server.tool(annotations={"readOnlyHint": True})
async def badge(name: str) -> Badge:
    """Make a badge.

    Args:
        name: Who wears it.
    """
    return Badge(name.upper())
'''


EDITS = [
    Edit(
        "greet says more in French",
        "greet",
        {"name": "Ada", "language": "fr"},
        "Bienvenue, Ada!",
        {"Bonjour": "Bienvenue"},
    ),
    Edit(
        "a new tool, sign_in, and greet says Moin in German",
        "sign_in",
        {"name": "Ada"},
        "Ada is in",
        {"Guten Tag": "Moin"},
        SIGN_IN,
        is_seen_in_lists=True,
    ),
    Edit(
        "sign_in has one more argument, room",
        "sign_in",
        {"name": "Ada", "room": "library"},
        "Ada is in the library",
        {
            "def sign_in(name: str)": 'def sign_in(name: str, room: str = "hall")',
            "        name: Who it is.\n": "        name: Who it is.\n        room: Where to.\n",
            '{name} is in"': '{name} is in the {room}"',
        },
        is_seen_in_lists=True,
    ),
    Edit(
        "sign_in says it in other words",
        "sign_in",
        {"name": "Eve", "room": "hall"},
        "Welcome to the hall, Eve",
        {'{name} is in the {room}"': 'Welcome to the {room}, {name}"'},
    ),
    Edit(
        "a new tool, minutes",
        "minutes",
        {"start": "09:30", "end": "11:00"},
        "90",
        added=MINUTES,
        is_seen_in_lists=True,
    ),
    Edit(
        "a slip: the end of the line in minutes is lost",
        "minutes",
        {"start": "23:30", "end": "00:15"},
        "",
        {"return last - first": "return (last - first"},
    ),
    Edit(
        "mended, and minutes goes past midnight",
        "minutes",
        {"start": "23:30", "end": "00:15"},
        "45",
        {"return (last - first": "return (last - first) % 1440"},
    ),
    Edit(
        "a new tool that is async and has fields, badge",
        "badge",
        {"name": "Ada"},
        "ADA",
        added=BADGE,
        is_seen_in_lists=True,
    ),
    Edit(
        "the answer of badge has one more field",
        "badge",
        {"name": "Ada"},
        "visitor",
        {
            "line: str\n\n\n@server": "line: str\n    role: str\n\n\n@server",
            "name.upper())": 'name.upper(), "visitor")',
        },
        is_seen_in_lists=True,
    ),
    Edit(
        "greet is short in French",
        "greet",
        {"name": "Eve", "language": "fr"},
        "Salut, Eve!",
        {"Bienvenue": "Salut"},
    ),
]


UNNOTICED = ("greet", {"name": "Ada", "language": "de"}, "Moin, Ada!")


"""A call that shows that the second edit is there, to a host that has not listed the tools again."""


MCPB = Path(__file__).parents[2] / "node_modules" / ".bin" / "mcpb"


QWEN, CLAUDE = HOSTS


CLAUDE_CODE = Sat(
    "claude-code",
    CLAUDE,
    ".claude.json",
    '{\n  "hasCompletedOnboarding": true,\n  "theme": "dark",\n  "projects": {\n    "{folder}": '
    '{\n      "hasTrustDialogAccepted": true\n    }\n  }\n}\n',
    ["--allowedTools", "mcp__desk"],
    {"ANTHROPIC_BASE_URL": "{model}", "ANTHROPIC_AUTH_TOKEN": "none", "ENABLE_TOOL_SEARCH": "false"},
    "auto mode on",
    CLAUDE.check,
    r"^desk: .*✔ Connected$",
    lists_again=True,
)


QWEN_CODE = Sat(
    "qwen-code",
    QWEN,
    ".qwen/settings.json",
    '{\n\t// as its user wrote it\n\t"mcpServers": {\n\t\t// none so far\n\t},\n'
    '\t"ui": {"enableUserFeedback": false},\n\t"$version": 4\n}\n',
    ["--auth-type", "openai", "--yolo"],
    {"OPENAI_BASE_URL": "{model}/v1", "OPENAI_API_KEY": "none", "OPENAI_MODEL": "scripted"},
    "Type your message",
    QWEN.check,
    r"✓ desk",
    lists_again=False,
)


class Day:
    """What is done in a day, in an empty folder and the home of somebody who has the hosts.

    Args:
        folder: The empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self._begin = time.monotonic()
        self._folder = folder
        self._model = Obeying("desk")
        self.home = folder / "home"
        self.project = folder / "work" / "desk"
        self.server = self.project / "desk" / "server.py"
        self._before: dict[str, bytes] = {}

    def say(self, text: str) -> None:
        """Print what is done or seen, with the seconds since the day began."""
        lines = text.rstrip().splitlines() or [""]
        shown = lines if len(lines) <= 12 else [*lines[:10], f"... and {len(lines) - 10} lines more"]
        for line in shown:
            print(f"{time.monotonic() - self._begin:6.1f}  {line}", flush=True)

    def run(self, command: Sequence[str], shown: str, status: int = 0) -> str:
        """Run a command in the project; print and return what it says."""
        self.say(f"$ {shown}")
        finished = subprocess.run(
            command,
            cwd=self.project if self.project.exists() else self.project.parent,
            env={"PATH": CLAUDE.environment("")["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=TIME_OUT,
        )
        said = finished.stdout.replace(str(self._folder), "…")
        self.say(said)
        assert finished.returncode == status, f"{shown}: status {finished.returncode}, not {status}"
        return finished.stdout

    def mcpkit(self, *words: str, status: int = 0) -> str:
        """Run one of mcpkit's commands."""
        shown = " ".join(f"'{word}'" if " " in word else word for word in words)
        return self.run([sys.executable, "-m", "mcpkit", *words], f"mcpkit {shown}", status)

    def morning(self) -> None:
        """Begin a project, and give its server to the hosts, which connect."""
        self.project.parent.mkdir()
        self.mcpkit("new", "desk")
        self.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], "pytest")
        for sat in (CLAUDE_CODE, QWEN_CODE):
            file = self.home / sat.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(sat.settings.replace("{folder}", str(self.project)), encoding="utf-8")
            self._before[sat.known_as] = file.read_bytes()
            self.mcpkit("install", sat.known_as, "desk/server.py", "--reload")
            self.mcpkit("uninstall", sat.known_as, "desk")
            assert file.read_bytes() == self._before[sat.known_as], f"{file} is not as it was"
            self.say(f"{sat.file} is as it was, to the byte")
            self.mcpkit("install", sat.known_as, "desk/server.py", "--reload")
            checked = sat.host.run(str(self.home), *sat.check).stdout
            assert re.search(sat.connected, checked, re.MULTILINE), checked
            self.say(f"{sat.host.name} {sat.host.version}: connected")

    def ten_edits(self) -> None:
        """Edit the server while a session of each host stays open; after each edit the model calls its tool."""
        with terminals(self._folder) as at, in_thread(self._model.app) as url:
            seats = [
                sit_down(sat, at, self.home, self.project, self._model, url)
                for sat in (CLAUDE_CODE, QWEN_CODE)
            ]
            command = f"mcpkit run {self.server} --reload"
            processes_of = {seat: seat.server(command) for seat in seats}
            for number, edit in enumerate(EDITS, 1):
                self.say(f"edit {number}: {edit.what}")
                self._write(edit.applied_to(self.server.read_text(encoding="utf-8")))
                for seat in seats:
                    is_connected_anew = edit.is_seen_in_lists and not seat.sat.lists_again
                    if is_connected_anew:
                        self._connect_anew(seat, number, edit)
                        processes_of[seat] = seat.server(command, other_than=processes_of[seat])
                    self._call(seat, edit)
                    assert seat.server(command) == processes_of[seat], "the host has started another process"
            for seat in seats:
                its = "the same process in all edits"
                if not seat.sat.lists_again:
                    anew = sum(edit.is_seen_in_lists for edit in EDITS)
                    its = (
                        f"connected anew in it {anew} times, by its settings; the same process between these"
                    )
                self.say(f"{seat.sat.host.name}: one session over {len(EDITS)} edits; {its}")
        until(lambda: not self._left(), lambda: f"processes are left: {self._left()}")
        self.say("the hosts have ended, and no process is left")

    def _left(self) -> list[str]:
        return [command for _, _, command in processes() if str(self._folder) in command]

    def _write(self, code: str) -> None:
        """Write the server as an editor does: another file takes the place of the one before."""
        written = self.server.with_suffix(".new")
        written.write_text(code, encoding="utf-8")
        written.replace(self.server)

    def _connect_anew(self, seat: Seat, number: int, edit: Edit) -> None:
        """Let a host that does not list again start the server anew in its session, by a change of its settings."""
        if number == 2:  # that it does not is seen once, when the edit is surely there
            tool, arguments, answer = UNNOTICED
            seat.order_until(tool, arguments, lambda text: answer in text)
            said = seat.order(edit.tool, edit.arguments).results
            assert "Not found" in said[0], said
            self.say(
                f"  {seat.sat.host.name}: greet is the new one, but of {edit.tool} it says {said[0]!r}: it does not"
                " list tools again when it is told that they have changed"
            )
        self.mcpkit("install", seat.sat.known_as, "desk/server.py", "--reload", "-e", f"EDIT={number}")

    def _call(self, seat: Seat, edit: Edit) -> None:
        """Let the model call the tool of an edit, until it answers as the edit has it."""
        parts = (
            [edit.answer]
            if edit.answer
            else [f"{self.server}:{self._broken_line()}", "SyntaxError", "never closed"]
        )
        said, times = seat.order_until(
            edit.tool, edit.arguments, lambda text: all(part in text for part in parts)
        )
        again = f", at the {times}. time of asking" if times > 1 else ""
        said = " ".join(said.replace(str(self._folder), "…").split())
        self.say(f"  {seat.sat.host.name}: {edit.tool}({_shown(edit.arguments)}) -> {said}{again}")

    def _broken_line(self) -> int:
        lines = self.server.read_text(encoding="utf-8").splitlines()
        return 1 + next(number for number, line in enumerate(lines) if "return (last" in line)

    def afternoon(self) -> None:
        """Call, check and lock the server; a change that breaks its clients is found."""
        self.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"], "pytest")
        assert self.mcpkit("call", "desk/server.py", "minutes", "start=09:30", "end=11:00").strip() == "90"
        self.mcpkit("check", "desk/server.py")
        self.mcpkit("lock", "desk/server.py")
        self.mcpkit("check", "desk/server.py")
        good = self.server.read_text(encoding="utf-8")
        self.say("an argument gets another name: start of minutes becomes since_when")
        self._write(
            good.replace("start: ", "since_when: ").replace("in (start, end)", "in (since_when, end)")
        )
        found = self.mcpkit("check", "desk/server.py", status=6)
        assert "contract-broken" in found, found
        assert "tool minutes" in found, found
        assert "start" in found, found
        self._write(good)
        self.mcpkit("check", "desk/server.py")

    def evening(self) -> None:
        """Pack the server, start it from where it is unpacked; take it from the hosts."""
        bundle, unpacked = self._folder / "desk.mcpb", self._folder / "unpacked"
        self.mcpkit("bundle", "desk/server.py", "--vendor", "-o", str(bundle))
        self.run([str(MCPB), "unpack", str(bundle), str(unpacked)], "mcpb unpack desk.mcpb unpacked")
        self.run(
            [str(MCPB), "validate", str(unpacked / "manifest.json")], "mcpb validate unpacked/manifest.json"
        )
        manifest = json.loads((unpacked / "manifest.json").read_text(encoding="utf-8"))
        [start] = manifest["server"]["mcp_config"]["args"]
        start = start.replace("${__dirname}", str(unpacked))
        # Nothing of this environment is found: neither what is installed, nor what variables name.
        called = self.mcpkit("call", f"{sys.executable} -S -E {start}", "minutes", "start=23:30", "end=00:15")
        assert called.strip() == "45", called
        for sat in (CLAUDE_CODE, QWEN_CODE):
            self._take_away(sat)

    def _take_away(self, sat: Sat) -> None:
        """Uninstall the server; the host's file is as it was, but for what the host has written into it since."""
        path = self.home / sat.file
        known = host_of(sat.known_as)
        file = file_of(known, "user", self.project)
        before = path.read_bytes()
        expected = Document(file, before).without_entry("desk")
        said = self.mcpkit("uninstall", sat.known_as, "desk")
        after = path.read_bytes()
        if "as it was before" in said:
            assert after == self._before[sat.known_as], f"{path} is not as it was"
            self.say(f"{sat.file} is as it was in the morning, to the byte")
            return
        assert after == expected, f"{path} is not as {sat.host.name} has written it, without the server"
        was, now = json.loads(before), json.loads(after)
        del was["mcpServers"]["desk"]
        assert now == was, f"{path} has lost something"
        self.say(
            f"{sat.host.name} has written {sat.file} since; all that it wrote is there, and only desk is gone"
        )


def _shown(arguments: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in arguments.items())


def main() -> None:
    """Live the day."""
    with tempfile.TemporaryDirectory(prefix="day-", ignore_cleanup_errors=True) as folder:
        day = Day(Path(folder).resolve())
        day.home.mkdir()
        os.environ.pop("CLAUDE_CONFIG_DIR", None)
        day.morning()
        day.ten_edits()
        day.afternoon()
        day.evening()
        day.say("that was the day")


if __name__ == "__main__":
    main()
