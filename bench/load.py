"""Load over HTTP: wrk keeps a number of connections busy with `tools/call`."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import workload
from client import FIRST_ID, HANDSHAKE, STATELESS
from contenders import Contender
from figures import Figure, Series
from probes import Sample
from web_client import Calls, WebServer

CONNECTIONS = 32
SECONDS = 1
SPARE_IDS = 1000  # more than the ids of requests that were under way when wrk hung up
SCRIPT = Path(__file__).with_name("wrk.lua")


def wrk() -> str:
    """Return the path of wrk, or end the run with the command that installs it."""
    found = shutil.which("wrk")
    if found is None:
        raise SystemExit(
            "no wrk on PATH, which makes the load: `apt-get install wrk` (Debian, Ubuntu), `brew install wrk`; "
            "`--only streams --only abandoned --only killed` does without"
        )
    return found


class Target:
    """A running server and the calls to make; ids go on from sample to sample, and never come twice."""

    def __init__(self, server: WebServer, calls: Calls) -> None:
        self.server = server
        self.calls = calls
        self.next_id = FIRST_ID
        self.size = self.checked()

    def checked(self) -> int:
        """Make one call, check what it answers, and return the size of the answer in bytes."""
        self.next_id += 1
        answer = self.server.ask(self.calls.request(self.next_id))
        message = answer.json()
        assert message["id"] == self.next_id, message
        assert message["result"]["content"][0]["text"] == workload.TEXT, message
        return answer.size


class Load:
    """Seconds for each call that all connections together get answered in `SECONDS`, and of the server's processor.

    The server is what bounds the rate, so on an idle machine both are the same; on a busy one the second counts.
    """

    def __init__(self, revision: str, mode: str) -> None:
        self._revision = revision
        self._mode = mode

    def open(self, contender: Contender, stack: ExitStack) -> Target:
        server = stack.enter_context(WebServer(contender, self._mode))
        sessions = CONNECTIONS if self._mode == "sessions" and contender.name != "bare" else 0
        target = Target(server, Calls(server, self._revision, sessions))
        self._run(target, 1)
        return target

    def sample(self, opened: Target) -> Sample:
        return self._run(opened, SECONDS)

    def _run(self, target: Target, seconds: int) -> Sample:
        options = [
            "-t1",
            f"-c{CONNECTIONS}",
            f"-d{seconds}s",
            f"-s{SCRIPT}",
            f"http://{target.server.host}/mcp",
        ]
        calls = target.calls
        script = [str(target.next_id).encode(), calls.tail, *calls.heads]
        before = target.server.processor_time()
        done = subprocess.run([wrk(), *options, "--", *script], check=True, capture_output=True)
        used = target.server.processor_time() - before
        summary = json.loads(done.stdout.splitlines()[-1])
        target.next_id += summary["requests"] + SPARE_IDS
        assert summary["failed"] == 0, f"{summary}; standard error: {target.server.errors()}"
        # Every answer is 2xx, and as long as the one that was read before and the one that is read now.
        assert target.checked() == target.size
        assert abs(summary["bytes"] - summary["requests"] * target.size) <= CONNECTIONS * target.size, summary
        return {"call": summary["seconds"] / summary["requests"], "processor": used / summary["requests"]}


def load_series() -> list[Series]:
    def series(title: str, revision: str, mode: str, target: float) -> Series:
        return Series(
            f"load, {title}",
            Load(revision, mode),
            [
                Figure("call", title, "calls/s", target=target),
                Figure("call", "... against the bare app", "calls/s", target=0.5, against="bare"),
                Figure("processor", "... processor time of the server for each"),
                Figure("processor", "... and against the bare app", against="bare"),
            ],
            rounds=11,
            takes_part=lambda each: (
                each.calls
                and revision in each.revisions
                and not (mode == "stateless" and each.needs_sessions)
            ),
        )

    return [
        series(f"{STATELESS}, each call alone", STATELESS, "sessions", 5),
        series(f"{HANDSHAKE}, {CONNECTIONS} sessions", HANDSHAKE, "sessions", 5),
        series(f"{HANDSHAKE}, no sessions", HANDSHAKE, "stateless", 15),
    ]
