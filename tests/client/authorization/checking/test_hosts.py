"""What each known host will do: by its document, by a registration, by an id that its user enters, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Server
from mcpkit.client.authorization.checking.check import check_authorization
from mcpkit.client.authorization.checking.hosts import HOSTS, hosts_at
from tests.helpers.login_site import Site
from tests.helpers.serving import in_thread

pytestmark = pytest.mark.anyio

DOCUMENT = "logs in, known by its metadata document"
REGISTERS = "registers itself, and logs in"


async def hosts(app: Any) -> dict[str, str]:
    with in_thread(app) as origin:
        return hosts_at(await check_authorization(f"{origin}/mcp"))


async def test_each_uses_its_document_or_registers_itself() -> None:
    assert await hosts(Site().app()) == {
        host.name: DOCUMENT if host.has_document else REGISTERS for host in HOSTS
    }


@pytest.mark.parametrize(
    "changes",
    [{"token_endpoint_auth_methods_supported": None}, {"client_id_metadata_document_supported": None}],
    ids=["none is not listed", "no documents"],
)
async def test_without_documents_for_public_clients_all_register(changes: dict[str, Any]) -> None:
    assert set((await hosts(Site(issuer=changes).app())).values()) == {REGISTERS}


async def test_without_registration_those_without_a_document_ask_their_users() -> None:
    found = await hosts(Site(issuer={"registration_endpoint": None}).app())
    assert found["VS Code"] == DOCUMENT
    assert found["Cursor"] == "needs a client ID, which its user enters (auth in mcp.json)"


async def test_with_neither_all_ask_their_users() -> None:
    without = {"registration_endpoint": None, "client_id_metadata_document_supported": None}
    found = await hosts(Site(issuer=without).app())
    assert {each.partition(",")[0] for each in found.values()} == {"needs a client ID"}


async def test_an_error_stops_those_that_it_names() -> None:
    found = await hosts(Site(issuer={"code_challenge_methods_supported": None}).app())
    assert {name for name, outcome in found.items() if outcome == "does not log in (no-pkce)"} == {
        "Claude",
        "Claude Code",
        "ChatGPT",
    }
    assert found["MCP Inspector"] == REGISTERS
    found = await hosts(Site(resource={"authorization_servers": []}).app())
    assert set(found.values()) == {"does not log in (no-issuer)"}


async def test_nobody_logs_in_at_an_open_server() -> None:
    assert set((await hosts(Server("open").asgi())).values()) == {"needs no login"}
