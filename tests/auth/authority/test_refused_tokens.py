"""What `/token` and `/revoke` refuse, and what becomes of a grant that somebody has tried to use twice."""

from __future__ import annotations

import base64
from typing import Any

import anyio
import pytest

from mcpkit.auth import DevClient, InvalidTokenError, VerifierUnavailableError
from mcpkit.state.memory import Memory
from tests.helpers.authority_site import MCP, ORIGIN, Here, Login
from tests.helpers.clock import Clock

pytestmark = pytest.mark.anyio


def basic(name: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}


async def refused(here: Here, form: Any, **options: Any) -> tuple[int, str]:
    response = await here.post("/token", form, **options)
    assert response.headers["cache-control"] == "no-store"
    return response.status_code, response.json()["error"]


async def test_a_code_is_worth_nothing_without_its_verifier_client_and_redirect() -> None:
    here = Here()
    login = await here.login()
    code = await here.code(login)
    other = (await here.registered())["client_id"]
    for change in (
        {"code_verifier": "x" * 43},
        {"code_verifier": "short"},
        {"code_verifier": login.query["code_challenge"]},
        {"client_id": other},
        {"redirect_uri": "http://127.0.0.1:3000/other"},
        {"code": code[:-1] + ("A" if code[-1] != "A" else "B")},
        {"code": "nothing"},
    ):
        assert await refused(here, login.form(code, **change)) == (400, "invalid_grant")
    assert await refused(here, login.form(code, code_verifier=None)) == (400, "invalid_request")
    assert await refused(here, login.form(code, code=None)) == (400, "invalid_request")
    assert await refused(here, login.form(code, resource="https://other.example")) == (400, "invalid_target")
    assert await refused(here, login.form(code, scope="notes:admin")) == (400, "invalid_scope")
    # None of these has used it up: whoever has stolen a code cannot keep its owner out.
    assert (await here.post("/token", login.form(code))).status_code == 200


async def test_a_code_expires_after_a_minute() -> None:
    here = Here()
    login = await here.login()
    code = await here.code(login)
    here.clock.now += 60
    assert await refused(here, login.form(code)) == (400, "invalid_grant")


@pytest.mark.parametrize("is_refreshed", [False, True])
async def test_a_code_that_is_used_again_later_revokes_what_it_gave(is_refreshed: bool) -> None:
    here = Here()
    login = await here.login()
    code = await here.code(login)
    tokens = (await here.post("/token", login.form(code))).json()
    if is_refreshed:
        tokens = (await here.refreshed(tokens, login)).json()
    else:
        here.clock.now += 11
    await here.granted(tokens)
    assert await refused(here, login.form(code)) == (400, "invalid_grant")
    with pytest.raises(InvalidTokenError, match="revoked"):
        await here.granted(tokens)
    assert (await here.refreshed(tokens, login)).json()["error"] == "invalid_grant"


async def test_a_code_that_is_used_at_once_gives_one_caller_tokens() -> None:
    """In processes of their own, with one store."""
    shared, clock = Memory(), Clock()
    processes = [Here(shared=Slow(shared), clock=clock) for _ in range(20)]
    login = await processes[0].login()
    code = await processes[0].code(login)
    answers = []

    async def redeem(here: Here) -> None:
        answers.append(await here.post("/token", login.form(code)))

    async with anyio.create_task_group() as tasks:
        for here in processes:
            tasks.start_soon(redeem, here)
    answers.sort(key=lambda answer: answer.status_code)
    assert [answer.status_code for answer in answers] == [200] + [400] * 19
    await processes[-1].granted(answers[0].json())  # whoever has lost a race takes nothing from the winner


async def test_a_refresh_token_that_is_used_at_once_gives_all_the_same_successor() -> None:
    shared, clock = Memory(), Clock()
    processes = [Here(shared=Slow(shared), clock=clock) for _ in range(20)]
    login = await processes[0].login()
    tokens = await processes[0].tokens(login)
    answers = []

    async def refresh(here: Here) -> None:
        answers.append(await here.refreshed(tokens, login))

    async with anyio.create_task_group() as tasks:
        for here in processes:
            tasks.start_soon(refresh, here)
    assert {answer.status_code for answer in answers} == {200}
    [successor] = {answer.json()["refresh_token"] for answer in answers}
    clock.now += 3600
    assert (await processes[0].refreshed({"refresh_token": successor}, login)).status_code == 200


async def test_a_refresh_token_that_is_used_again_later_revokes_all() -> None:
    here = Here()
    login = await here.login()
    first = await here.tokens(login)
    second = (await here.refreshed(first, login)).json()
    here.clock.now += 11
    assert (await here.refreshed(first, login)).json()["error"] == "invalid_grant"
    assert (await here.refreshed(second, login)).json()["error"] == "invalid_grant"
    for tokens in (first, second):
        with pytest.raises(InvalidTokenError, match="revoked"):
            await here.granted(tokens)


async def test_a_refresh_token_of_before_the_last_one_revokes_all_even_at_once() -> None:
    here = Here()
    login = await here.login()
    first = await here.tokens(login)
    second = (await here.refreshed(first, login)).json()
    await here.refreshed(second, login)
    assert (await here.refreshed(first, login)).json()["error"] == "invalid_grant"
    assert (await here.refreshed(second, login)).json()["error"] == "invalid_grant"


async def test_a_refresh_token_is_of_one_client() -> None:
    here = Here()
    login = await here.login()
    tokens = await here.tokens(login)
    thief = await here.login()
    assert (await here.refreshed(tokens, thief)).json()["error"] == "invalid_grant"
    assert (await here.refreshed(tokens, login)).status_code == 200


async def test_codes_and_refresh_tokens_are_not_taken_for_each_other() -> None:
    here = Here()
    login = await here.login()
    code = await here.code(login)
    assert (await here.refreshed({"refresh_token": code}, login)).json()["error"] == "invalid_grant"
    tokens = (await here.post("/token", login.form(code))).json()
    assert await refused(here, login.form(tokens["refresh_token"])) == (400, "invalid_grant")
    for text in (code, tokens["refresh_token"], "a.b.c", "", "x" * 20_000):
        with pytest.raises(InvalidTokenError, match="not issued here"):
            await here.authority.verify(text, MCP)


async def test_a_token_of_another_issuer_is_none_even_where_its_keys_are_the_same() -> None:
    shared, clock = Memory(), Clock()
    here, other = Here(shared=shared, clock=clock), Here(shared=shared, clock=clock, issuer=f"{ORIGIN}/other")
    tokens = await here.tokens()
    await here.granted(tokens)
    with pytest.raises(InvalidTokenError, match="not issued here"):
        await other.granted(tokens)


async def test_a_client_with_a_secret_has_to_say_it() -> None:
    here = Here()
    registered = await here.registered(token_endpoint_auth_method="client_secret_post")
    name, secret = registered["client_id"], registered["client_secret"]
    login = Login(name)
    code = await here.code(login)
    assert await refused(here, login.form(code)) == (401, "invalid_client")
    assert await refused(here, login.form(code, client_secret="wrong")) == (401, "invalid_client")
    response = await here.post("/token", login.form(code), headers=basic(name, "wrong"))
    assert (response.status_code, response.json()["error"]) == (401, "invalid_client")
    assert response.headers["www-authenticate"].startswith("Basic ")
    twice = await refused(here, login.form(code, client_secret=secret), headers=basic(name, secret))
    assert twice == (400, "invalid_request")
    other = (await here.registered(token_endpoint_auth_method="client_secret_basic"))["client_secret"]
    assert await refused(here, login.form(code, client_secret=other)) == (401, "invalid_client")
    tokens = await here.post("/token", login.form(code, client_id=None), headers=basic(name, secret))
    assert tokens.status_code == 200
    again = await here.refreshed(tokens.json(), login)
    assert again.json()["error"] == "invalid_client"
    assert (await here.refreshed(tokens.json(), login, client_secret=secret)).status_code == 200


@pytest.mark.parametrize(
    "header", ["Basic", "Basic !", "Basic bm9jb2xvbg==", "Basic /////w==", "Bearer x", "", "Basic OjEy"]
)
async def test_a_header_that_names_no_client_is_refused(header: str) -> None:
    here = Here()
    form = {"grant_type": "refresh_token", "refresh_token": "x"}
    answer = await refused(here, form, headers={"Authorization": header})
    assert answer == (401, "invalid_client")


async def test_a_public_client_has_no_secret_and_two_ids_are_none() -> None:
    here = Here()
    login = await here.login()
    code = await here.code(login)
    assert await refused(here, login.form(code, client_secret="x")) == (401, "invalid_client")
    two = await refused(here, login.form(code), headers=basic("another", ""))
    assert two == (400, "invalid_request")


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
async def test_a_grant_of_another_kind_is_refused(change: dict[str, Any], error: str) -> None:
    here = Here()
    login = await here.login()
    assert await refused(here, login.form("x", **change)) == (400, error)


async def test_a_body_that_is_no_form_is_refused() -> None:
    here = Here()
    async with here.browser() as client:
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


# Clients that ask for themselves

JOB = DevClient("job", secret="the job's secret", scopes=["notes:write"])


async def test_a_client_by_hand_may_ask_for_itself() -> None:
    here = Here(clients=[JOB])
    form = {"grant_type": "client_credentials", "resource": MCP}
    response = await here.post("/token", form, headers=basic("job", "the job's secret"))
    tokens = response.json()
    assert (response.status_code, tokens["scope"]) == (200, "notes:write")
    assert "refresh_token" not in tokens
    principal = (await here.granted(tokens)).principal
    assert (principal.subject, principal.client_id) == (None, "job")
    assert principal.id == "http://127.0.0.1:8000#client=job"
    async with here.browser() as client:
        metadata = (await client.get("/.well-known/oauth-authorization-server")).json()
    assert "client_credentials" in metadata["grant_types_supported"]


async def test_a_client_that_asks_for_itself_gets_what_it_may_and_no_more() -> None:
    here = Here(clients=[JOB])
    form = {"grant_type": "client_credentials", "scope": "notes:admin"}
    assert await refused(here, form, headers=basic("job", "the job's secret")) == (400, "invalid_scope")
    assert await refused(here, form, headers=basic("job", "wrong")) == (401, "invalid_client")
    assert await refused(here, {**form, "client_id": "job"}) == (401, "invalid_client")


# Revocation


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_a_client_revokes_its_tokens(kind: str) -> None:
    here = Here()
    login = await here.login()
    tokens = await here.tokens(login)
    form = {"token": tokens[kind], "client_id": login.client_id, "token_type_hint": "nonsense"}
    response = await here.post("/revoke", form)
    assert (response.status_code, response.content) == (200, b"")
    with pytest.raises(InvalidTokenError, match="revoked"):
        await here.granted(tokens)
    assert (await here.refreshed(tokens, login)).json()["error"] == "invalid_grant"
    assert (await here.post("/revoke", form)).status_code == 200


async def test_what_is_no_token_counts_as_revoked_and_another_clients_is_not() -> None:
    here = Here()
    login = await here.login()
    tokens = await here.tokens(login)
    thief = (await here.login()).client_id
    nothing = await here.post("/revoke", {"token": "nothing", "client_id": login.client_id})
    assert nothing.status_code == 200
    for kind in ("access_token", "refresh_token"):
        theirs = await here.post("/revoke", {"token": tokens[kind], "client_id": thief})
        assert (theirs.status_code, theirs.json()["error"]) == (400, "invalid_grant")
    nobody = await here.post("/revoke", {"token": tokens["refresh_token"]})
    assert (nobody.status_code, nobody.json()["error"]) == (401, "invalid_client")
    await here.granted(tokens)


# A store that does not answer


class Slow(Memory):
    """Another process's view of a store, in which others come between a reading and a writing."""

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
    """A store that does not answer."""

    async def get(self, key: str) -> Any:
        raise ConnectionError("the store at 10.0.0.7 is down")

    put = delete = get  # type: ignore[assignment]


async def test_a_store_that_does_not_answer_is_503_and_nothing_of_it_is_said() -> None:
    shared, clock = Memory(), Clock()
    good, bad = Here(shared=shared, clock=clock), Here(shared=Broken(), clock=clock)
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
