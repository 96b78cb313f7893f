"""Requests to /token and /revoke: codes, refresh tokens, client authentication, revocation."""

from __future__ import annotations

import base64
from typing import Any

import anyio
import pytest

from mcpkit.auth import DevClient, InvalidTokenError, VerifierUnavailableError
from mcpkit.state.memory import Memory
from tests.helpers.clock import Clock
from tests.helpers.oauth_flow import MCP, ORIGIN, AuthServer, Login

pytestmark = pytest.mark.anyio


def basic(name: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}


async def token_error(server: AuthServer, form: Any, **options: Any) -> tuple[int, str]:
    response = await server.post("/token", form, **options)
    assert response.headers["cache-control"] == "no-store"
    return response.status_code, response.json()["error"]


async def test_code_requires_verifier_client_and_redirect(server, login, code):
    other = (await server.registered())["client_id"]
    for change in (
        {"code_verifier": "x" * 43},
        {"code_verifier": "short"},
        {"code_verifier": login.query["code_challenge"]},
        {"client_id": other},
        {"redirect_uri": "http://127.0.0.1:3000/other"},
        {"code": code[:-1] + ("A" if code[-1] != "A" else "B")},
        {"code": "nothing"},
    ):
        assert await token_error(server, login.form(code, **change)) == (400, "invalid_grant")
    assert await token_error(server, login.form(code, code_verifier=None)) == (400, "invalid_request")
    assert await token_error(server, login.form(code, code=None)) == (400, "invalid_request")
    assert await token_error(server, login.form(code, resource="https://other.example")) == (
        400,
        "invalid_target",
    )
    assert await token_error(server, login.form(code, scope="notes:admin")) == (400, "invalid_scope")
    # None of these has used it up: whoever has stolen a code cannot keep its owner out.
    assert (await server.post("/token", login.form(code))).status_code == 200


async def test_code_expires_after_a_minute(server, login, code):
    server.clock.now += 60
    assert await token_error(server, login.form(code)) == (400, "invalid_grant")


@pytest.mark.parametrize("is_refreshed", [False, True])
async def test_code_reuse_revokes_tokens(server, login, code, is_refreshed):
    tokens = (await server.post("/token", login.form(code))).json()
    if is_refreshed:
        tokens = (await server.refreshed(tokens, login)).json()
    else:
        server.clock.now += 11
    await server.granted(tokens)
    assert await token_error(server, login.form(code)) == (400, "invalid_grant")
    with pytest.raises(InvalidTokenError, match="revoked"):
        await server.granted(tokens)
    assert (await server.refreshed(tokens, login)).json()["error"] == "invalid_grant"


async def test_code_concurrent_use_returns_tokens_once():
    shared, clock = Memory(), Clock()
    processes = [AuthServer(shared=Slow(shared), clock=clock) for _ in range(20)]
    login = await processes[0].login()
    code = await processes[0].code(login)
    answers = []

    async def redeem(server: AuthServer) -> None:
        answers.append(await server.post("/token", login.form(code)))

    async with anyio.create_task_group() as tasks:
        for server in processes:
            tasks.start_soon(redeem, server)
    answers.sort(key=lambda answer: answer.status_code)
    assert [answer.status_code for answer in answers] == [200] + [400] * 19
    await processes[-1].granted(answers[0].json())  # whoever has lost a race takes nothing from the winner


async def test_refresh_concurrent_use_returns_one_successor():
    shared, clock = Memory(), Clock()
    processes = [AuthServer(shared=Slow(shared), clock=clock) for _ in range(20)]
    login = await processes[0].login()
    tokens = await processes[0].tokens(login)
    answers = []

    async def refresh(server: AuthServer) -> None:
        answers.append(await server.refreshed(tokens, login))

    async with anyio.create_task_group() as tasks:
        for server in processes:
            tasks.start_soon(refresh, server)
    assert {answer.status_code for answer in answers} == {200}
    [successor] = {answer.json()["refresh_token"] for answer in answers}
    clock.now += 3600
    assert (await processes[0].refreshed({"refresh_token": successor}, login)).status_code == 200


async def test_refresh_reuse_revokes_grant(server, login):
    first = await server.tokens(login)
    second = (await server.refreshed(first, login)).json()
    server.clock.now += 11
    assert (await server.refreshed(first, login)).json()["error"] == "invalid_grant"
    assert (await server.refreshed(second, login)).json()["error"] == "invalid_grant"
    for tokens in (first, second):
        with pytest.raises(InvalidTokenError, match="revoked"):
            await server.granted(tokens)


async def test_refresh_by_another_client_is_rejected(server, login, tokens):
    thief = await server.login()
    assert (await server.refreshed(tokens, thief)).json()["error"] == "invalid_grant"
    assert (await server.refreshed(tokens, login)).status_code == 200


async def test_code_and_refresh_token_are_not_interchangeable(server, login, code):
    assert (await server.refreshed({"refresh_token": code}, login)).json()["error"] == "invalid_grant"
    tokens = (await server.post("/token", login.form(code))).json()
    assert await token_error(server, login.form(tokens["refresh_token"])) == (400, "invalid_grant")
    for text in (code, tokens["refresh_token"], "a.b.c", "", "x" * 20_000):
        with pytest.raises(InvalidTokenError, match="not issued by this"):
            await server.authority.verify(text, MCP)


async def test_token_of_another_issuer_with_same_keys_is_rejected():
    shared, clock = Memory(), Clock()
    server, other = (
        AuthServer(shared=shared, clock=clock),
        AuthServer(shared=shared, clock=clock, issuer=f"{ORIGIN}/other"),
    )
    tokens = await server.tokens()
    await server.granted(tokens)
    with pytest.raises(InvalidTokenError, match="not issued by this"):
        await other.granted(tokens)


async def test_confidential_client_must_authenticate(server):
    registered = await server.registered(token_endpoint_auth_method="client_secret_post")
    name, secret = registered["client_id"], registered["client_secret"]
    login = Login(name)
    code = await server.code(login)
    assert await token_error(server, login.form(code)) == (401, "invalid_client")
    assert await token_error(server, login.form(code, client_secret="wrong")) == (401, "invalid_client")
    response = await server.post("/token", login.form(code), headers=basic(name, "wrong"))
    assert (response.status_code, response.json()["error"]) == (401, "invalid_client")
    assert response.headers["www-authenticate"].startswith("Basic ")
    twice = await token_error(server, login.form(code, client_secret=secret), headers=basic(name, secret))
    assert twice == (400, "invalid_request")
    other = (await server.registered(token_endpoint_auth_method="client_secret_basic"))["client_secret"]
    assert await token_error(server, login.form(code, client_secret=other)) == (401, "invalid_client")
    tokens = await server.post("/token", login.form(code, client_id=None), headers=basic(name, secret))
    assert tokens.status_code == 200
    again = await server.refreshed(tokens.json(), login)
    assert again.json()["error"] == "invalid_client"
    assert (await server.refreshed(tokens.json(), login, client_secret=secret)).status_code == 200


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"grant_type": None}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}, "unsupported_grant_type"),
        ({"grant_type": ["authorization_code", "refresh_token"]}, "invalid_request"),
        ({"grant_type": "client_credentials"}, "unauthorized_client"),
        ({"anything": ["a", "b"]}, "invalid_request"),
    ],
)
async def test_token_request_grant_type_invalid_is_rejected(server, login, change, error):
    assert await token_error(server, login.form("x", **change)) == (400, error)


async def test_token_request_body_invalid_is_rejected(server):
    async with server.browser() as client:
        for options in (
            {"json": {"grant_type": "refresh_token"}},
            {"content": b"grant_type=x", "headers": {"Content-Type": "text/plain"}},
            {"content": b""},
            {"content": b"a=%FF", "headers": {"Content-Type": "application/x-www-form-urlencoded"}},
            {"content": b"\xff", "headers": {"Content-Type": "application/x-www-form-urlencoded"}},
        ):
            response = await client.post("/token", **options)  # type: ignore[arg-type]
            assert (response.status_code, response.json()["error"]) == (400, "invalid_request")
        long = await client.post("/token", data={"a": "x" * 40_000})
        assert (long.status_code, long.json()["error"]) == (413, "invalid_request")
        assert (await client.get("/token")).status_code == 405


JOB = DevClient("job", secret="the job's secret", scopes=["notes:write"])


async def test_client_credentials_returns_token():
    server = AuthServer(clients=[JOB])
    form = {"grant_type": "client_credentials", "resource": MCP}
    response = await server.post("/token", form, headers=basic("job", "the job's secret"))
    tokens = response.json()
    assert (response.status_code, tokens["scope"]) == (200, "notes:write")
    assert "refresh_token" not in tokens
    principal = (await server.granted(tokens)).principal
    assert (principal.subject, principal.client_id) == (None, "job")
    assert principal.id == "http://127.0.0.1:8000#client=job"
    async with server.browser() as client:
        metadata = (await client.get("/.well-known/oauth-authorization-server")).json()
    assert "client_credentials" in metadata["grant_types_supported"]


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_revoke_ends_grant(server, login, tokens, kind):
    form = {"token": tokens[kind], "client_id": login.client_id, "token_type_hint": "nonsense"}
    response = await server.post("/revoke", form)
    assert (response.status_code, response.content) == (200, b"")
    with pytest.raises(InvalidTokenError, match="revoked"):
        await server.granted(tokens)
    assert (await server.refreshed(tokens, login)).json()["error"] == "invalid_grant"
    assert (await server.post("/revoke", form)).status_code == 200


async def test_revoke_of_unknown_or_foreign_token(server, login, tokens):
    thief = (await server.login()).client_id
    nothing = await server.post("/revoke", {"token": "nothing", "client_id": login.client_id})
    assert nothing.status_code == 200
    for kind in ("access_token", "refresh_token"):
        theirs = await server.post("/revoke", {"token": tokens[kind], "client_id": thief})
        assert (theirs.status_code, theirs.json()["error"]) == (400, "invalid_grant")
    nobody = await server.post("/revoke", {"token": tokens["refresh_token"]})
    assert (nobody.status_code, nobody.json()["error"]) == (401, "invalid_client")
    await server.granted(tokens)


class Slow(Memory):
    def __init__(self, shared: Memory) -> None:
        super().__init__()
        self._shared = shared

    async def get(self, key: str) -> Any:
        found = await self._shared.get(key)
        await anyio.sleep(0)
        return found

    async def put(self, key: str, value: bytes, **more: Any) -> Any:
        return await self._shared.put(key, value, **more)

    async def delete(self, key: str, **more: Any) -> Any:
        return await self._shared.delete(key, **more)


class Broken(Memory):
    async def get(self, key: str) -> Any:
        raise ConnectionError("the store at 10.0.0.7 is down")

    put = delete = get  # type: ignore[assignment]


async def test_token_request_store_failure_is_503():
    shared, clock = Memory(), Clock()
    good, bad = AuthServer(shared=shared, clock=clock), AuthServer(shared=Broken(), clock=clock)
    login = await good.login()
    code = await good.code(login)
    tokens = await good.tokens(await good.login())
    response = await bad.post("/token", login.form(code))
    assert (response.status_code, response.json()["error"]) == (503, "temporarily_unavailable")
    assert "10.0.0.7" not in response.text
    revoked = await bad.post("/revoke", {"token": tokens["access_token"], "client_id": login.client_id})
    assert revoked.status_code == 503
    with pytest.raises(VerifierUnavailableError):
        await bad.granted(tokens)
