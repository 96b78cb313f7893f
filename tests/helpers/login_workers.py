"""Processes of one site without affinity: each request goes to the next of them, and any of them may be killed."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2

from tests.helpers.authority_site import CALLBACK, code_of
from tests.helpers.held_provider import CLIENT_SECRET, SUBJECT, HeldProvider
from tests.helpers.pipe import stateless_meta
from tests.helpers.processes import Process, free_port
from tests.helpers.proxy_flow import ProxyFlow, form_of
from tests.helpers.redis_server import RedisServer
from tests.helpers.upstream_site import log_in
from tests.helpers.waiting import PATIENCE

ORIGIN = "https://mcp.example.com"
MCP = f"{ORIGIN}/mcp"
SECRET = "a secret of the tests, long enough"
COUNT = 4


class Workers:
    """The processes, behind something that ends TLS and sends each request to the next of them.

    A context manager that starts them, and leaves none behind.

    Args:
        folder: Where their logs are, and the file of SQLite.
        provider: Where their users log in.
        redis: What they share; None for a file of SQLite.
        settings: What is in their environment besides.

    Attributes:
        processes: The processes.
        turn: Which of them was asked last.
        served: Which of them have answered, in order.
        heard: All that clients have been told by them: headers and bodies.
    """

    def __init__(
        self,
        folder: Path,
        provider: HeldProvider,
        redis: RedisServer | None = None,
        **settings: object,
    ) -> None:
        self.file = folder / "shared.db"
        self.redis = redis
        self.served: list[int] = []
        self.heard: list[bytes] = []
        self.turn = 0
        self._starting: set[int] = set()
        self.settings = {
            "PROVIDER": provider.url,
            "CLIENT_SECRET": CLIENT_SECRET,
            "SHARED": self.file if redis is None else redis.url,
            "SECRETS": json.dumps([SECRET]),
            **settings,
        }
        self.processes = [self._process(folder, number) for number in range(COUNT)]

    def _process(self, folder: Path, number: int) -> Process:
        port = free_port()
        command = [sys.executable, "-m", "uvicorn", "--port", str(port), "--log-level", "debug"]
        return Process(
            f"worker-{number}", [*command, "tests.helpers.login_worker:app"], folder, self.settings, port=port
        )

    async def __aenter__(self) -> Workers:
        try:
            await self.start(*self.processes)
        except BaseException:
            self.kill(*self.processes)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill(*self.processes)

    async def start(self, *processes: Process) -> None:
        """Start some of them, and wait until they listen."""
        for each in processes:
            each.start()
        await asyncio.gather(*(each.up() for each in processes))

    def kill(self, *processes: Process) -> None:
        """Kill some of them, by SIGKILL."""
        for each in processes:
            each.kill()

    async def restart(self, *processes: Process, ahead: float = 0, **settings: object) -> None:
        """Kill some of them, and start them anew.

        Args:
            processes: Which; all where none is named.
            ahead: Seconds by which their clocks are ahead from now on.
            settings: What is in their environment besides from now on.
        """
        processes = processes or tuple(self.processes)
        self.kill(*processes)
        for each in processes:
            each.ahead = ahead
            each.settings.update(settings)
        await self.start(*processes)

    def replace_the_last(self) -> None:
        """Kill the one that has served last, and start it anew, which who wants it next waits for."""
        self.replace(self.served[-1])

    def replace(self, number: int) -> None:
        """Kill one of them, and start it anew, which who wants it next waits for."""
        self.processes[number].kill()
        self.processes[number].start()
        self._starting.add(number)

    async def up(self, number: int) -> None:
        """Wait until one of them listens that has been started anew."""
        if number in self._starting:
            await self.processes[number].up()
            self._starting.discard(number)

    def notes(self) -> bytes:
        """Return what all of them have logged, in all their lives."""
        return b"\n".join(each.log.read_bytes() for each in self.processes)

    def stored(self) -> dict[str, bytes]:
        """Return all bytes of what they share, by what they are in, backups among them."""
        if self.redis is not None:
            return _stored_in_redis(self.redis)
        backup = self.file.with_name("backup.db")
        with closing(sqlite3.connect(self.file)) as source, closing(sqlite3.connect(backup)) as target:
            source.backup(target)
        return {each.name: each.read_bytes() for each in self.file.parent.glob("*.db*")}

    def client(self, to: int | None, headers: Mapping[str, str]) -> httpx2.AsyncClient:
        """Return a browser or a client, with cookies of its own, that follows no redirect.

        Args:
            to: Which process answers it; None for each in turn.
            headers: What all that it sends has.
        """
        transport = _ByTurns(self, to)
        return httpx2.AsyncClient(base_url=ORIGIN, transport=transport, timeout=PATIENCE, headers=headers)

    def next(self) -> int:
        """Return whose turn it is."""
        self.turn = (self.turn + 1) % len(self.processes)
        return self.turn


class _ByTurns(httpx2.AsyncBaseTransport):
    """Sends what is for the site to one process or the next, each time by a connection of its own."""

    def __init__(self, workers: Workers, to: int | None) -> None:
        self._workers = workers
        self._to = to
        self._connections = httpx2.AsyncHTTPTransport(
            verify=False, limits=httpx2.Limits(max_keepalive_connections=0)
        )

    async def aclose(self) -> None:
        await self._connections.aclose()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        is_ours, sent = request.url.host == "mcp.example.com", request
        if is_ours:
            number = self._workers.next() if self._to is None else self._to
            port = self._workers.processes[number].port
            there = request.url.copy_with(scheme="http", host="127.0.0.1", port=port)
            sent = httpx2.Request(request.method, there, headers=request.headers, stream=request.stream)
            await self._workers.up(number)
        response = await self._connections.handle_async_request(sent)
        body = b"".join([part async for part in response.stream])
        await response.aclose()
        if is_ours:
            self._workers.served.append(number)
            head = [b": ".join(pair) for pair in response.headers.raw]
            self._workers.heard.append(b"\r\n".join([*head, body]))
        return httpx2.Response(response.status_code, headers=response.headers, content=body)


class Journey(ProxyFlow):
    """What a client and the browser of its user do, one step at a time.

    Args:
        workers: The site.
        to: Which process answers; None for each in turn.
    """

    def __init__(self, workers: Workers, to: int | None = None) -> None:
        # From an address of its own, so that what one alone may do is no matter.
        headers = {"X-Forwarded-For": f"2001:db8:{secrets.token_hex(2)}:{secrets.token_hex(2)}::1"}
        super().__init__(workers.client(to, headers), sent_back, workers.client(to, headers))
        self.held: dict[str, Any] = {}
        self.shown: httpx2.Response | None = None
        self.provider_url = self.callback_url = self.got = ""

    async def __aenter__(self) -> Journey:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()
        await self.browser.aclose()

    async def discover(self) -> None:
        """Find the authorization server."""
        refused = await self.client.post("/mcp", json=_call("whoami"), headers=_headers("whoami"))
        assert refused.status_code == 401, refused.text
        where = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
        assert where is not None
        resource = (await self.client.get(where[1])).json()
        assert resource["authorization_servers"] == [ORIGIN]

    async def read_metadata(self) -> None:
        """Read the authorization server's metadata."""
        found = (await self.client.get("/.well-known/oauth-authorization-server")).json()
        assert found["issuer"] == ORIGIN

    async def register(self) -> None:
        """Register the client, another time where it has been."""
        self.login = None
        await self.begun()

    async def open_page(self) -> None:
        """Open the page on which the user is asked."""
        self.shown = await self.page()
        assert self.shown.status_code == 200, self.shown.text

    async def allow(self) -> None:
        """Allow it; the browser is sent to the provider."""
        self.provider_url = (await self.say_yes()).headers["location"]

    async def say_yes(self) -> httpx2.Response:
        """Send the form, and return the answer."""
        assert self.shown is not None
        form = form_of(self.shown)
        answer = await self.browser.post("/authorize", data=form, headers={"Origin": ORIGIN})
        assert answer.status_code == 303, answer.text
        return answer

    async def log_in(self) -> None:
        """Log in at the provider, which sends the browser back."""
        self.callback_url = await self.visit(self.provider_url)

    async def come_back(self) -> None:
        """Come back, and be sent to the client."""
        answer = await self.back(self.callback_url)
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"].startswith(CALLBACK)
        self.got = code_of(answer)

    async def redeem(self) -> None:
        """Redeem the code."""
        self.take(await self.redeemed(self.got))

    async def refresh(self) -> None:
        """Refresh the tokens."""
        self.take(await self.refreshed(self.held))

    def take(self, answer: httpx2.Response) -> None:
        """Take the tokens of an answer."""
        assert answer.status_code == 200, answer.text
        self.held = answer.json()

    async def whoami(self) -> None:
        """Call a tool that says who asks."""
        assert text_of(await self.call("whoami")) == SUBJECT

    async def ask_provider(self) -> None:
        """Call a tool that asks the provider, with the user's own token, who that is."""
        assert text_of(await self.call("at_provider")) == SUBJECT

    async def call(self, tool: str, **arguments: str) -> httpx2.Response:
        """Call a tool, and return the answer."""
        headers = _headers(tool) | {"Authorization": f"Bearer {self.held['access_token']}"}
        return await self.client.post("/mcp", json=_call(tool, **arguments), headers=headers)

    async def revoke(self) -> None:
        """Revoke the tokens."""
        answer = await self.revoked(self.held["refresh_token"])
        assert answer.status_code == 200, answer.text

    async def be_refused(self) -> None:
        """Call a tool in vain, and refresh in vain."""
        assert (await self.call("whoami")).status_code == 401
        refused = await self.refreshed(self.held)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")

    async def to_code(self) -> None:
        """Do all until the client has a code."""
        for step in (self.register, self.open_page, self.allow, self.log_in, self.come_back):
            await step()

    async def to_tokens(self) -> None:
        """Do all until the client has tokens."""
        await self.to_code()
        await self.redeem()


async def sent_back(url: str) -> str:
    """Log in at the provider, and return where that sends the browser back to."""
    return str(httpx2.URL(f"{ORIGIN}/callback", params=await log_in(url)))


def text_of(answer: httpx2.Response) -> str:
    """Return the text of a tool's result."""
    assert answer.status_code == 200, answer.text
    result = result_of(answer)
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


def result_of(answer: httpx2.Response) -> dict[str, Any]:
    """Return the result of a tool, whether it took so long that it came as an event or not."""
    is_event = answer.headers["content-type"].startswith("text/event-stream")
    told = answer.text.rpartition("data: ")[2] if is_event else answer.text
    result: dict[str, Any] = json.loads(told)["result"]
    return result


def _call(tool: str, **arguments: str) -> Mapping[str, Any]:
    params = {"name": tool, "arguments": arguments, "_meta": stateless_meta()}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def _headers(tool: str) -> dict[str, str]:
    return {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }


def _stored_in_redis(redis: RedisServer) -> dict[str, bytes]:
    """What a Redis that compresses nothing has on the disk, as a dump and as a log, and what it holds."""
    redis.ask("SAVE")
    found = {str(each): each.read_bytes() for each in redis.folder.rglob("*") if each.is_file()}
    keys = redis.ask("KEYS", "*")
    return {
        **found,
        "keys": b"\n".join(part for key in keys for part in (key, redis.ask("DUMP", key) or b"")),
    }
