"""What an authorization server keeps: nothing that can be read, or that is worth anything to who copies it."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import Server, Sqlite
from mcpkit.auth import DevAuth, DevUser, InvalidTokenError, VerifierUnavailableError
from mcpkit.state.sealed import Sealed
from tests.helpers.authority_site import SECRET, Here, Login, clicked, code_of
from tests.helpers.raw_client import initialize

pytestmark = pytest.mark.anyio


async def test_the_file_has_neither_tokens_nor_names_nor_codes(tmp_path: Path) -> None:
    file = tmp_path / "shared.db"
    here = Here(
        [DevUser("ada-lovelace", claims={"org_id": "analytical"})],
        shared=Sqlite(file),
    )
    login = await here.login(scope="notes:write", state="a state of the client")
    code = await here.code(login, "ada-lovelace")
    tokens = (await here.post("/token", login.form(code))).json()
    tokens = (await here.refreshed(tokens, login)).json()
    assert await here.granted(tokens)
    kept = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert len(kept) > 1000
    said = (login.verifier, login.query["code_challenge"], login.client_id, "ada-lovelace", "analytical")
    for text in (*said, code, tokens["access_token"], tokens["refresh_token"], "notes:write"):
        assert text.encode() not in kept


async def test_a_copy_of_the_file_is_worth_nothing_without_the_secret(tmp_path: Path) -> None:
    here = Here(shared=Sqlite(tmp_path / "shared.db"))
    login = await here.login()
    tokens = await here.tokens(login)
    thief = Here(shared=Sqlite(tmp_path / "shared.db"), secret="quite another secret of a server")
    with pytest.raises(InvalidTokenError):
        await thief.granted(tokens)
    assert (await thief.refreshed(tokens, login)).json()["error"] == "invalid_client"
    own = Login((await thief.registered())["client_id"])
    assert (await thief.refreshed(tokens, own)).json()["error"] == "invalid_grant"


async def test_a_mounted_server_has_its_login_at_the_root_of_the_site() -> None:
    """As `well_known()` gives it to the app around; the token is for the mounted endpoint."""
    server = Server("notes", secret=SECRET, auth=DevAuth(users=["ada"]))
    app = server.asgi(public_url="http://127.0.0.1:8000/notes/mcp")
    site = Starlette(routes=[*app.well_known(), Mount("/notes", app)])
    transport = httpx2.ASGITransport(site)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as browser:
        found = (await browser.get("/.well-known/oauth-authorization-server")).json()
        assert found["protected_resources"][0] == "http://127.0.0.1:8000/notes/mcp"
        metadata = {"redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none"}
        client_id = (await browser.post("/register", json=metadata)).json()["client_id"]
        login = Login(client_id, resource="http://127.0.0.1:8000/notes/mcp")
        code = code_of(await clicked(browser, login))
        tokens = (await browser.post("/token", data=login.form(code))).json()
        forwarded = await browser.get("/.well-known/oauth-authorization-server", headers={"Via": "1.1 x"})
        assert forwarded.status_code == 403
        opening = initialize()
        for token, status in ((tokens["access_token"], 200), ("another", 401)):
            headers = {
                "Authorization": f"Bearer {token}",
                "Accept": "application/json, text/event-stream",
            }
            assert (await browser.post("/notes/mcp", json=opening, headers=headers)).status_code == status


async def test_a_grant_of_the_version_before_is_read() -> None:
    here = Here()
    login = await here.login()
    tokens = await here.tokens(login)
    grants = Sealed(here.site.shared, here.site.keys, "grants")
    [before] = [record async for record in grants.items("")]
    found = await grants.get(before["id"])
    assert found is not None
    older = {name: value for name, value in before.items() if name != "held"}
    await grants.put(before["id"], {**older, "version": 1}, version=found[1], ttl=600)
    assert (await here.granted(tokens)).principal.subject == "ada"
    assert (await here.refreshed(tokens, login)).status_code == 200
    found = await grants.get(before["id"])
    assert found is not None
    await grants.put(before["id"], {**before, "version": 3}, version=found[1], ttl=600)
    with pytest.raises(VerifierUnavailableError):
        await here.granted(tokens)
