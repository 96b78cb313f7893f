"""Worker processes of one site whose users log in at an OpenID provider; each request goes to the next worker."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import sqlite3
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from starlette.requests import Request
from starlette.responses import Response

from tests.helpers.fake_idp import CLIENT, TOKEN, IdpLogin, OpenIdSite, log_in, serving_site
from tests.helpers.oauth_flow import CALLBACK, ProxyFlow, code_of, form_of
from tests.helpers.pipe import stateless_meta
from tests.helpers.processes import Process, free_port
from tests.helpers.redis_server import RedisServer
from tests.helpers.signed_tokens import Signer
from tests.helpers.waiting import DEFAULT_TIMEOUT

CLIENT_ID, CLIENT_SECRET = CLIENT


USER = "ada"


SUBJECT = f"sub-of-{USER}"


EMAIL = "ada.lovelace@analytical.example"


class HeldProvider(OpenIdSite):
    """The provider. It says in its answers who it is, and whom nobody waits for it gives nothing.

    Attributes:
        redeemed: How often it was asked to redeem a code.
        refreshed: How often it was asked for a refresh.
        before: Cleared, refreshes are held before anything has been done.
        after: Cleared, refreshes are held when all has been done, and only the answer is missing.
        is_held: Set when a refresh is held.
        is_dropped: Set when whoever asked for one that is held has gone.
    """

    def __init__(self) -> None:
        super().__init__(Signer())
        self.users = {USER: {"email": EMAIL}}
        self.claims = lambda claims: {**claims, "email": EMAIL, "email_verified": True}
        self.metadata = {"authorization_response_iss_parameter_supported": True}
        self.redeemed = self.refreshed = 0
        self.before, self.after = threading.Event(), threading.Event()
        self.is_held, self.is_dropped = threading.Event(), threading.Event()
        self.release()

    @property
    def latest(self) -> IdpLogin:
        """The login that was begun last."""
        return self.logins[-1]

    def release(self) -> None:
        """Hold nothing any more."""
        self.before.set()
        self.after.set()
        self.is_held.clear()
        self.is_dropped.clear()

    def as_before(self) -> None:
        """Answer again as in the beginning."""
        self.seconds = 3600
        self.release()
        self.mend()

    def code_parameters(self) -> dict[str, str]:
        """Say who answers (RFC 9207)."""
        return {"iss": self.url}

    def secret(self, kind: str) -> str:
        """Return a new secret with letters that are written otherwise in URLs."""
        made = f"{super().secret(kind)}+/~"
        self.secrets.add(made)
        return made

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        body = await request.body() if request.url.path == TOKEN else b""
        self.redeemed += b"grant_type=authorization_code" in body
        if b"grant_type=refresh_token" not in body:
            return await super().answer(request)
        self.refreshed += 1
        if not await self._released(request, self.before):
            return Response()
        answer = await super().answer(request)
        await self._released(request, self.after)
        return answer

    async def _released(self, request: Request, gate: threading.Event) -> bool:
        """Wait until a refresh may go on, and say whether anybody waits for it still."""
        while not gate.is_set():
            self.is_held.set()
            if await request.is_disconnected():
                self.is_dropped.set()
                return False
            await anyio.sleep(0.01)
        return True


@contextmanager
def held_provider() -> Iterator[HeldProvider]:
    """Serve the provider until the end of the block."""
    site = HeldProvider()
    with serving_site(site):
        try:
            yield site
        finally:
            site.release()


def secrets_of(provider: HeldProvider, *more: str) -> dict[str, list[Any]]:
    """Return all that nobody but the provider and its client may see, by kind; its codes are in the browser's URL."""
    found: dict[str, list[Any]] = {"e-mail": [EMAIL], "client secret": [CLIENT_SECRET], "other": [*more]}
    found["verifier"] = [form["code_verifier"] for _, form in provider.forms if "code_verifier" in form]
    for secret in provider.secrets - {CLIENT_SECRET, *found["verifier"]}:
        kind = "ID token" if secret.startswith("eyJ") else secret.partition("_")[0]
        found.setdefault(kind, []).append(secret)
    del found["code"]
    return found


ORIGIN = "https://mcp.example.com"


SECRET = "a secret of the tests, long enough"


COUNT = 4


class Workers:
    def __init__(
        self, folder: Path, provider: HeldProvider, redis: RedisServer | None = None, **settings: object
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
            f"worker-{number}",
            [*command, "tests.integration.auth.worker:app"],
            folder,
            self.settings,
            port=port,
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
        for each in processes:
            each.start()
        await asyncio.gather(*(each.up() for each in processes))

    def kill(self, *processes: Process) -> None:
        for each in processes:
            each.kill()

    async def restart(self, *processes: Process, ahead: float = 0, **settings: object) -> None:
        processes = processes or tuple(self.processes)
        self.kill(*processes)
        for each in processes:
            each.ahead = ahead
            each.settings.update(settings)
        await self.start(*processes)

    def replace_the_last(self) -> None:
        self.replace(self.served[-1])

    def replace(self, number: int) -> None:
        self.processes[number].kill()
        self.processes[number].start()
        self._starting.add(number)

    async def up(self, number: int) -> None:
        if number in self._starting:
            await self.processes[number].up()
            self._starting.discard(number)

    def notes(self) -> bytes:
        return b"\n".join(each.log.read_bytes() for each in self.processes)

    def stored(self) -> dict[str, bytes]:
        if self.redis is not None:
            return _stored_in_redis(self.redis)
        backup = self.file.with_name("backup.db")
        with closing(sqlite3.connect(self.file)) as source, closing(sqlite3.connect(backup)) as target:
            source.backup(target)
        return {each.name: each.read_bytes() for each in self.file.parent.glob("*.db*")}

    def client(self, to: int | None, headers: Mapping[str, str]) -> httpx2.AsyncClient:
        transport = _ByTurns(self, to)
        return httpx2.AsyncClient(
            base_url=ORIGIN, transport=transport, timeout=DEFAULT_TIMEOUT, headers=headers
        )

    def next(self) -> int:
        self.turn = (self.turn + 1) % len(self.processes)
        return self.turn


class _ByTurns(httpx2.AsyncBaseTransport):
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
        refused = await self.client.post("/mcp", json=_call("whoami"), headers=_headers("whoami"))
        assert refused.status_code == 401, refused.text
        where = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
        assert where is not None
        resource = (await self.client.get(where[1])).json()
        assert resource["authorization_servers"] == [ORIGIN]

    async def read_metadata(self) -> None:
        found = (await self.client.get("/.well-known/oauth-authorization-server")).json()
        assert found["issuer"] == ORIGIN

    async def register(self) -> None:
        self.login = None
        await self.begun()

    async def open_page(self) -> None:
        self.shown = await self.page()
        assert self.shown.status_code == 200, self.shown.text

    async def allow(self) -> None:
        self.provider_url = (await self.say_yes()).headers["location"]

    async def say_yes(self) -> httpx2.Response:
        assert self.shown is not None
        form = form_of(self.shown)
        answer = await self.browser.post("/authorize", data=form, headers={"Origin": ORIGIN})
        assert answer.status_code == 303, answer.text
        return answer

    async def log_in(self) -> None:
        self.callback_url = await self.visit(self.provider_url)

    async def come_back(self) -> None:
        answer = await self.back(self.callback_url)
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"].startswith(CALLBACK)
        self.got = code_of(answer)

    async def redeem(self) -> None:
        self.take(await self.redeemed(self.got))

    async def refresh(self) -> None:
        self.take(await self.refreshed(self.held))

    def take(self, answer: httpx2.Response) -> None:
        assert answer.status_code == 200, answer.text
        self.held = answer.json()

    async def whoami(self) -> None:
        assert text_of(await self.call("whoami")) == SUBJECT

    async def ask_provider(self) -> None:
        assert text_of(await self.call("at_provider")) == SUBJECT

    async def call(self, tool: str, **arguments: str) -> httpx2.Response:
        headers = _headers(tool) | {"Authorization": f"Bearer {self.held['access_token']}"}
        return await self.client.post("/mcp", json=_call(tool, **arguments), headers=headers)

    async def revoke(self) -> None:
        answer = await self.revoked(self.held["refresh_token"])
        assert answer.status_code == 200, answer.text

    async def be_refused(self) -> None:
        assert (await self.call("whoami")).status_code == 401
        refused = await self.refreshed(self.held)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")

    async def to_code(self) -> None:
        for step in (self.register, self.open_page, self.allow, self.log_in, self.come_back):
            await step()

    async def to_tokens(self) -> None:
        await self.to_code()
        await self.redeem()


async def sent_back(url: str) -> str:
    return str(httpx2.URL(f"{ORIGIN}/callback", params=await log_in(url)))


def text_of(answer: httpx2.Response) -> str:
    assert answer.status_code == 200, answer.text
    result = result_of(answer)
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


def result_of(answer: httpx2.Response) -> dict[str, Any]:
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
    redis.ask("SAVE")
    found = {str(each): each.read_bytes() for each in redis.folder.rglob("*") if each.is_file()}
    keys = redis.ask("KEYS", "*")
    return {
        **found,
        "keys": b"\n".join(part for key in keys for part in (key, redis.ask("DUMP", key) or b"")),
    }
