from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import Client
from mcpkit.compat.auth import AccessToken, AuthSettings
from tests.compat.fastmcp.bakery import bakery
from tests.helpers.serving import in_thread

pytestmark = pytest.mark.anyio


class Bakers:
    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id=token, scopes=[]) if token in {"ada", "bob"} else None


@pytest.mark.parametrize("prefix", [None, "/bakery"])
async def test_an_sse_app_can_be_mounted_with_or_without_being_told_where(prefix: str | None) -> None:
    app = Starlette(routes=[Mount("/bakery", bakery().sse_app(prefix))])
    with in_thread(app) as url:
        async with Client(f"{url}/bakery/sse") as client:
            assert (await client.call("bake", {"kind": "rye"})).text == "rye for None"


@pytest.mark.parametrize("transport", ["stdio", "sse", "streamable-http"])
async def test_where_a_loop_runs_already_the_error_says_what_to_write(transport: Any) -> None:
    with pytest.raises(RuntimeError, match=f"await mcp.run_{transport.replace('-', '_')}_async"):
        bakery().run(transport)


async def test_over_sse_each_call_has_the_token_of_its_own_message() -> None:
    auth = AuthSettings(issuer_url="https://issuer.example.com", resource_server_url=None)  # type: ignore[arg-type]
    mcp = bakery(auth=auth, token_verifier=Bakers())
    with in_thread(mcp.sse_app()) as url:
        async with Client(f"{url}/sse", headers={"Authorization": "Bearer ada"}) as client:
            assert (await client.call("bake", {"kind": "rye"})).text == "rye for ada"
        for token in ("eve", "ADA"):
            with pytest.raises(Exception, match="401"):
                async with Client(f"{url}/sse", headers={"Authorization": f"Bearer {token}"}):
                    pass
