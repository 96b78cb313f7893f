"""The client that the official conformance suite starts: `python client.py URL`.

The suite names the scenario in `MCP_CONFORMANCE_SCENARIO` and its values in `MCP_CONFORMANCE_CONTEXT`. The client finds
out the revision itself, which is part of what the suite checks.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx2

from mcpkit import Client
from mcpkit.client import ClientCredentials, EnterpriseManaged, MemoryTokens, OAuth, WorkloadIdentity
from mcpkit.exceptions import AuthorizationError

Scenario = Callable[[str], Awaitable[None]]

SCENARIOS: dict[str, Scenario] = {}
CONTEXT: Mapping[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))


def scenario(*names: str) -> Callable[[Scenario], Scenario]:
    """Register a function for scenarios."""

    def register(function: Scenario) -> Scenario:
        SCENARIOS.update(dict.fromkeys(names, function))
        return function

    return register


async def accept(*_: Any) -> dict[str, Any]:
    """Accept every form as it is, with what the server proposes."""
    return {}


@scenario("initialize", "json-schema-ref-no-deref")
async def list_tools(url: str) -> None:
    async with Client(url) as client:
        await client.list_tools()


@scenario("tools_call")
async def call_tool(url: str) -> None:
    async with Client(url) as client:
        result = await client.call_tool("add_numbers", {"a": 2, "b": 3})
        assert result.text == "The sum of 2 and 3 is 5"


@scenario("elicitation-sep1034-client-defaults")
async def accept_defaults(url: str) -> None:
    async with Client(url, elicitation_handler=accept) as client:
        result = await client.call_tool("test_client_elicitation_defaults")
        assert result.text.startswith("Elicitation completed")


@scenario("sse-retry")
async def reconnect(url: str) -> None:
    async with Client(url) as client:
        result = await client.call_tool("test_reconnection")
        assert result.text == "Reconnection test completed successfully"


@scenario("request-metadata")
async def send_metadata(url: str) -> None:
    async def sample(*_: Any) -> str:
        raise AssertionError("the suite does not require it")

    async with Client(
        url, elicitation_handler=accept, sampling_handler=sample, roots=["file:///work"]
    ) as client:
        await client.list_tools()
        await client.call_tool("any")


@scenario("sep-2322-client-request-state")
async def answer_rounds(url: str) -> None:
    async def ask(*_: Any) -> dict[str, Any]:
        between = await client.call_tool("test_mrtr_unrelated")
        assert between.text == "unrelated-ok"
        return {"confirmed": True}

    async with Client(url, elicitation_handler=ask) as client:
        assert (await client.call_tool("test_mrtr_echo_state")).text == "echo-state-ok"
        assert (await client.call_tool("test_mrtr_no_state")).text == "no-state-ok"
        assert (await client.call_tool("test_mrtr_no_result_type")).text == "no-result-type-test-ok"


@scenario("http-standard-headers")
async def use_all_lists(url: str) -> None:
    async with Client(url) as client:
        for tool in await client.list_tools():
            await client.call_tool(tool["name"])
        for resource in await client.list_resources():
            await client.read_resource(resource["uri"])
        for prompt in await client.list_prompts():
            await client.get_prompt(prompt["name"])


@scenario("http-custom-headers")
async def call_listed_tools(url: str) -> None:
    async with Client(url) as client:
        for call in CONTEXT["toolCalls"]:
            await client.call_tool(call["name"], call["arguments"])


@scenario("http-invalid-tool-headers")
async def call_valid_tools(url: str) -> None:
    async with Client(url) as client:
        tools = await client.list_tools()
        assert [tool["name"] for tool in tools] == ["valid_tool"]
        for tool in tools:
            await client.call_tool(tool["name"], {"region": "eu"})


@scenario("json-schema-2020-12-preservation")
async def return_schema(url: str) -> None:
    async with Client(url) as client:
        [schema] = [
            tool["inputSchema"]
            for tool in await client.list_tools()
            if tool["name"] == "json_schema_2020_12_tool"
        ]
        await client.call_tool("json_schema_echo", {"schema": schema})


class AutomaticBrowser:
    """A browser for the authorization servers of the suite, which redirect without a page."""

    redirect_uri = "http://localhost:3000/callback"

    @asynccontextmanager
    async def receive_redirect(self, registered: Sequence[str] = ()) -> AsyncIterator[AutomaticBrowser]:
        yield self

    async def authorize(self, url: str, state: str) -> Mapping[str, str]:
        async with httpx2.AsyncClient() as web:
            answer = await web.get(url, follow_redirects=False)
        return dict(parse_qsl(urlsplit(urljoin(url, answer.headers["location"])).query))


def oauth(**options: Any) -> OAuth:
    return OAuth(browser=AutomaticBrowser(), storage=MemoryTokens(), **options)


async def use(url: str, auth: Any) -> None:
    async with Client(url, auth=auth) as client:
        [tool] = await client.list_tools()
        await client.call_tool(tool["name"])


@scenario(
    *(f"auth/metadata-{variant}" for variant in ("default", "var1", "var2", "var3")),
    *(f"auth/scope-{case}" for case in ("from-www-authenticate", "from-scopes-supported")),
    *(f"auth/scope-{case}" for case in ("omitted-when-undefined", "step-up")),
    *(f"auth/token-endpoint-auth-{method}" for method in ("basic", "post", "none")),
    *(f"auth/offline-access-{case}" for case in ("scope", "not-supported")),
    *(f"auth/iss-{case}" for case in ("supported", "not-advertised")),
    "auth/authorization-server-migration",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
)
async def log_in(url: str) -> None:
    await use(url, oauth())


@scenario(
    *(f"auth/iss-{case}" for case in ("supported-missing", "wrong-issuer", "unexpected", "normalized")),
    "auth/metadata-issuer-mismatch",
    "auth/resource-mismatch",
    "auth/scope-retry-limit",
)
async def expect_refusal(url: str) -> None:
    try:
        await use(url, oauth())
    except AuthorizationError as error:
        print(error, file=sys.stderr)
    else:
        raise AssertionError("the client did not refuse")


@scenario("auth/dpop", "auth/dpop-nonce")
async def use_dpop(url: str) -> None:
    await use(url, oauth(dpop=True))


@scenario("auth/basic-cimd")
async def use_client_document(url: str) -> None:
    await use(url, oauth(client_metadata_url="https://conformance-test.local/client-metadata.json"))


@scenario("auth/pre-registration")
async def use_registered_client(url: str) -> None:
    issuer = CONTEXT.get("issuer") or await issuer_of(url)
    await use(
        url, oauth(client_id=CONTEXT["client_id"], client_secret=CONTEXT["client_secret"], issuer=issuer)
    )


@scenario("auth/client-credentials-basic")
async def use_client_secret(url: str) -> None:
    issuer = await issuer_of(url)
    await use(url, ClientCredentials(CONTEXT["client_id"], CONTEXT["client_secret"], issuer=issuer))


@scenario("auth/client-credentials-jwt")
async def use_client_key(url: str) -> None:
    key, algorithm = CONTEXT["private_key_pem"], CONTEXT["signing_algorithm"]
    await use(url, ClientCredentials(CONTEXT["client_id"], private_key=key, algorithm=algorithm))


@scenario("auth/enterprise-managed-authorization", "auth/cross-app-access-complete-flow")
async def use_enterprise_login(url: str) -> None:
    auth = EnterpriseManaged(
        CONTEXT["client_id"],
        secret=CONTEXT["client_secret"],
        issuer=await issuer_of(url),
        idp=CONTEXT["idp_issuer"],
        idp_client_id=CONTEXT["idp_client_id"],
        identity=CONTEXT["idp_id_token"],
        storage=MemoryTokens(),
    )
    await use(url, auth)


@scenario("auth/wif-jwt-bearer")
async def use_workload_identity(url: str) -> None:
    await use(url, WorkloadIdentity(CONTEXT["client_id"], CONTEXT["valid_jwt"], issuer=await issuer_of(url)))


async def issuer_of(url: str) -> str:
    """Return the issuer of the credentials, which the first suite does not name."""
    async with httpx2.AsyncClient() as web:
        metadata = await web.get(urljoin(url, "/.well-known/oauth-protected-resource/mcp"))
    return str(metadata.json()["authorization_servers"][0])


if __name__ == "__main__":
    asyncio.run(SCENARIOS[os.environ["MCP_CONFORMANCE_SCENARIO"]](sys.argv[-1]))  # type: ignore[arg-type]
