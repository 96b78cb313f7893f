"""Logins across two worker processes with one store: crashes, races, and secrets in stores, logs and responses."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from urllib.parse import parse_qsl

import anyio
import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.helpers.fake_idp import CLIENT, REVOKE, TOKEN, USERINFO, OpenIdSite, log_in, serving_site
from tests.helpers.oauth_flow import SECRET, ProxyFlow, code_of
from tests.helpers.processes import Process, free_port
from tests.helpers.signed_tokens import Signer
from tests.helpers.waiting import DEFAULT_TIMEOUT
from tests.integration.auth.servers import contains, tool_call

pytestmark = [pytest.mark.anyio, pytest.mark.long]

ORIGIN = "https://mcp.example.com"
EMAIL = "ada.lovelace@analytical.example"
SUBJECT = "sub-of-ada"
HOUR = 3600.0


class Provider(OpenIdSite):
    """The OpenID provider. It can hold refreshes until a test opens `gate`."""

    def __init__(self) -> None:
        super().__init__(Signer())
        self.users = {"ada": {"email": EMAIL}}
        self.claims = lambda claims: {**claims, "email": EMAIL, "email_verified": True}
        self.metadata = {"authorization_response_iss_parameter_supported": True}
        self.refreshes_received = 0
        self.gate, self.is_held, self.is_dropped = threading.Event(), threading.Event(), threading.Event()
        self.gate.set()

    def expire_at_once(self) -> None:
        """Issue tokens that are due for a refresh at once."""
        self.changed = lambda members: {**members, "expires_in": 0}

    def mend(self) -> None:
        super().mend()
        self.changed = lambda members: members
        self.gate.set()

    def code_parameters(self) -> dict[str, str]:
        return {"iss": self.url}

    def secret(self, kind: str) -> str:
        secret = f"{super().secret(kind)}+/~"  # characters that are escaped in URLs
        self.secrets.add(secret)
        return secret

    async def answer(self, request: Request) -> Response:
        if request.url.path == TOKEN and b"grant_type=refresh_token" in await request.body():
            self.refreshes_received += 1
            while not self.gate.is_set():
                self.is_held.set()
                if await request.is_disconnected():
                    self.is_dropped.set()
                    return Response()
                await anyio.sleep(0.01)
        return await super().answer(request)

    def secrets_by_kind(self) -> dict[str, set[str]]:
        """The secrets that only the provider and its client may see. Its codes are in URLs of the browser."""
        verifiers = {form["code_verifier"] for _, form in self.forms if "code_verifier" in form}
        found = {"email": {EMAIL}, "client": {CLIENT[1]}, "verifier": verifiers, "server": {SECRET}}
        for secret in self.secrets - verifiers - {CLIENT[1]}:
            kind = "id_token" if secret.startswith("eyJ") else secret.partition("_")[0]
            found.setdefault(kind, set()).add(secret)
        del found["code"]
        return found


class Workers(httpx2.AsyncBaseTransport):
    """Two worker processes; each request goes to the worker that did not serve the last one."""

    def __init__(self, folder: Path, provider: Provider) -> None:
        self.file = folder / "shared.db"
        self.current = 0
        self.responses: list[bytes] = []
        self.inner = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_keepalive_connections=0))
        settings = {
            "PROVIDER": provider.url, "CLIENT_ID": CLIENT[0], "CLIENT_SECRET": CLIENT[1], "SECRET": SECRET,
            "SHARED": self.file, "AHEAD": 0,
        }  # fmt: skip
        uvicorn = [
            sys.executable,
            "-m",
            "uvicorn",
            "--log-level",
            "debug",
            "tests.integration.auth.worker:app",
        ]
        self.processes = [
            Process(f"worker-{port}", [*uvicorn, "--port", str(port)], folder, settings, port=port)
            for port in (free_port(), free_port())
        ]

    async def start(self, ahead: float = 0.0) -> None:
        """Start all workers anew, with clocks that are this number of seconds ahead."""
        for process in self.processes:
            process.kill()
            process.settings["AHEAD"] = ahead
            process.start()
        await asyncio.gather(*(process.up() for process in self.processes))

    def replace(self) -> None:
        """Kill the worker that served last, and start another one."""
        self.processes[self.current].kill()
        self.processes[self.current].start()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.host != "mcp.example.com":
            return await self.inner.handle_async_request(request)
        self.current = 1 - self.current
        process = self.processes[self.current]
        await process.up()
        url = request.url.copy_with(scheme="http", host="127.0.0.1", port=process.port)
        sent = httpx2.Request(request.method, url, headers=request.headers, stream=request.stream)
        response = await self.inner.handle_async_request(sent)
        body = b"".join([part async for part in response.stream])
        await response.aclose()
        self.responses.append(b"\r\n".join([*map(b": ".join, response.headers.raw), body]))
        return httpx2.Response(response.status_code, headers=response.headers, content=body)

    def stored(self) -> bytes:
        """The files of the store and of its backup."""
        backup = self.file.with_name("backup.db")
        with closing(sqlite3.connect(self.file)) as source, closing(sqlite3.connect(backup)) as target:
            source.backup(target)
        return b"\n".join(each.read_bytes() for each in self.file.parent.glob("*.db*"))

    def logs(self) -> bytes:
        return b"\n".join(process.log.read_bytes() for process in self.processes)


@pytest.fixture(scope="module")
def module_provider() -> Iterator[Provider]:
    provider = Provider()
    with serving_site(provider):
        yield provider


@pytest.fixture
def provider(module_provider: Provider) -> Iterator[Provider]:
    yield module_provider
    module_provider.mend()


@pytest.fixture(scope="module")
async def workers(
    module_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Workers]:
    workers = Workers(tmp_path_factory.mktemp("workers"), module_provider)
    try:
        await workers.start()
        yield workers
    finally:
        for process in workers.processes:
            process.kill()


class Flow(ProxyFlow):
    """A login by way of the workers, and tool calls with its tokens."""

    held: dict[str, str]

    async def keep(self, response: httpx2.Response) -> None:
        assert response.status_code == 200, response.text
        self.held = response.json()

    async def refresh(self) -> None:
        await self.keep(await self.refreshed(self.held))

    async def call(self, tool: str) -> httpx2.Response:
        return await self.client.post("/mcp", **tool_call(tool, self.held["access_token"]))

    async def expect_user(self, tool: str = "whoami_at_provider") -> None:
        response = await self.call(tool)
        assert response.status_code == 200, response.text
        assert f'"text":"{SUBJECT}"' in response.text

    async def expect_end(self) -> None:
        refused = await self.refreshed(self.held)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
        # By the other worker than the last call: a worker may accept a token for 30 s after verifying it.
        assert (await self.call("whoami")).status_code == 401


@asynccontextmanager
async def flow_at(workers: Workers) -> AsyncIterator[Flow]:
    async def visit(url: str) -> str:
        return str(httpx2.URL(f"{ORIGIN}/callback", params=await log_in(url)))

    async with httpx2.AsyncClient(base_url=ORIGIN, transport=workers, timeout=DEFAULT_TIMEOUT) as browser:
        yield Flow(browser, visit)


@pytest.fixture
async def flow(workers: Workers) -> AsyncIterator[Flow]:
    async with flow_at(workers) as flow:
        yield flow


async def test_login_survives_kill_of_worker_after_each_step_that_stores(flow, workers, provider):
    allowed = await flow.answered()
    workers.replace()
    returned = await flow.back(await flow.visit(allowed.headers["location"]))
    workers.replace()
    await flow.keep(await flow.redeemed(code_of(returned)))
    workers.replace()
    await flow.expect_user()
    await flow.refresh()
    workers.replace()
    await flow.expect_user()
    assert (await flow.revoked(flow.held["refresh_token"])).status_code == 200
    await flow.expect_end()
    assert provider.logins[-1].is_over, "the provider did not receive the revocation"
    assert provider.revoked


async def test_code_redeemed_concurrently_gives_one_login(flow):
    code = await flow.code()
    responses = await asyncio.gather(*(flow.redeemed(code) for _ in range(30)))
    first, *others = sorted(responses, key=lambda response: response.status_code)
    assert {(each.status_code, each.json()["error"]) for each in others} == {(400, "invalid_grant")}
    await flow.keep(first)
    for _ in range(2):  # at either worker
        await flow.expect_user()
    await flow.refresh()


async def test_refresh_token_used_concurrently_keeps_login(flow, workers, provider):
    used = await flow.tokens()
    login = provider.logins[-1]
    responses = await asyncio.gather(*(flow.refreshed(used) for _ in range(20)))
    assert [each.status_code for each in responses] == [200] * 20
    assert len({each.json()["refresh_token"] for each in responses}) == 1
    await flow.keep(responses[0])
    for _ in range(2):  # at either worker
        await flow.expect_user()
    await flow.refresh()
    assert not login.is_over
    await workers.start(ahead=HOUR)
    try:
        again = await flow.refreshed(used)
        assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
        await flow.expect_end()
    finally:
        await workers.start()
    assert login.is_over, "the provider did not receive the revocation"


async def test_refresh_of_killed_worker_is_repeated(flow, workers, provider):
    provider.expire_at_once()
    await flow.keep(await flow.redeemed())
    provider.mend()
    provider.gate.clear()
    calling = asyncio.create_task(flow.call("whoami_at_provider"))
    assert await asyncio.to_thread(provider.is_held.wait, DEFAULT_TIMEOUT)
    workers.replace()
    with pytest.raises(httpx2.TransportError):
        await calling
    assert await asyncio.to_thread(provider.is_dropped.wait, DEFAULT_TIMEOUT)
    provider.gate.set()
    before = provider.refreshes_received
    await asyncio.gather(*(flow.expect_user() for _ in range(8)))
    assert provider.refreshes_received == before + 1
    assert not provider.logins[-1].is_over
    await flow.refresh()
    await flow.expect_user()


def error_of(description: str, error: str = "invalid_request") -> Response:
    return JSONResponse({"error": error, "error_description": description, "error_uri": description}, 400)


def echo_form(request: Request) -> Response:
    form = dict(parse_qsl(getattr(request, "_body", b"").decode()))
    return error_of(" ".join(form.get(name, "") for name in ("code_verifier", "refresh_token", "token")))


PROVIDER_ERRORS = [
    lambda _: Response(status_code=500),
    lambda _: error_of(f"{EMAIL} may not", "access_denied"),
    lambda request: error_of(f"{request.headers.get('authorization')} at {request.url}"),
    echo_form,
    lambda request: Response(request.headers.get("authorization", "") * 3, media_type="text/html"),
]


async def test_store_backup_logs_and_responses_have_no_secrets(flow, workers, provider):
    def leaked_kinds() -> set[str]:
        data = b"\n".join([workers.stored(), workers.logs(), *workers.responses])
        return {
            kind
            for kind, secrets in provider.secrets_by_kind().items()
            for secret in secrets
            if any(contains(data, part) for part in parts_of(secret))
        }

    await flow.keep(await flow.redeemed())
    await flow.expect_user()
    await flow.refresh()
    provider.expire_at_once()
    async with flow_at(workers) as other:
        await other.keep(await other.redeemed())
        await other.expect_user()
        workers.replace()
        await other.refresh()
        refused = await other.refreshed({"refresh_token": f"nothing.{other.held['refresh_token']}"})
        assert refused.status_code == 400
        for respond in PROVIDER_ERRORS:
            callback = await other.at_provider()
            provider.instead = lambda request, respond=respond: (
                respond(request) if request.url.path in {TOKEN, USERINFO, REVOKE} else None
            )
            await other.call("whoami_at_provider")
            await other.refreshed(other.held)
            assert "code=" not in (await other.browser.get(callback)).headers["location"]
            provider.mend()
    assert leaked_kinds() == set()
    await flow.revoked(flow.held["refresh_token"])
    await flow.expect_end()
    assert provider.secrets_by_kind().keys() == {
        "access", "refresh", "id_token", "verifier", "client", "email", "server",
    }  # fmt: skip
    assert len(workers.logs()) > 10_000
    assert b"DEBUG" in workers.logs()
    assert leaked_kinds() == set()


def parts_of(secret: str) -> list[str]:
    """Return the parts of a secret to search for: logs may shorten it."""
    if secret.startswith("eyJ"):
        return [secret.rpartition(".")[2][:48]]
    return [secret[:24], secret[-24:]] if len(secret) >= 48 else [secret]


async def test_unfinished_logins_store_nothing(flow, workers):
    def stored_keys() -> set[str]:
        with closing(sqlite3.connect(workers.file)) as connection:
            return {
                key for (key,) in connection.execute("SELECT key FROM stored WHERE key LIKE '%/sealed/%'")
            }

    await flow.begun()
    before = stored_keys()
    for _ in range(20):
        flow.login = None
        assert (await flow.answered()).status_code == 303
    assert stored_keys() == before
