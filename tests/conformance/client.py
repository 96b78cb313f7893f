"""The client that the official conformance suite starts: `python client.py URL`.

The suite says by `MCP_CONFORMANCE_SCENARIO` what is to be done, and in `MCP_CONFORMANCE_CONTEXT` with which values.
The revision is not looked up anywhere: finding out which one is spoken is part of what is judged.
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

from mcpkit import (
    AuthorizationError,
    Client,
    ClientCredentials,
    EnterpriseManaged,
    MemoryTokens,
    OAuth,
    WorkloadIdentity,
)

Scenario = Callable[[str], Awaitable[None]]

SCENARIOS: dict[str, Scenario] = {}


def scenario(*names: str) -> Callable[[Scenario], Scenario]:
    """Say for which scenarios a function is."""

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
async def call_a_tool(url: str) -> None:
    async with Client(url) as client:
        result = await client.call("add_numbers", {"a": 2, "b": 3})
        assert result.text == "The sum of 2 and 3 is 5"


@scenario("elicitation-sep1034-client-defaults")
async def accept_what_is_proposed(url: str) -> None:
    async with Client(url, elicit=accept) as client:
        result = await client.call("test_client_elicitation_defaults")
        assert result.text.startswith("Elicitation completed")


@scenario("sse-retry")
async def come_back_for_the_answer(url: str) -> None:
    async with Client(url) as client:
        result = await client.call("test_reconnection")
        assert result.text == "Reconnection test completed successfully"


@scenario("request-metadata")
async def say_what_it_is_and_can(url: str) -> None:
    async def sample(*_: Any) -> str:
        raise AssertionError("nobody asks for it")

    async with Client(url, elicit=accept, sample=sample, roots=["file:///work"]) as client:
        await client.list_tools()
        await client.call("any")


@scenario("sep-2322-client-request-state")
async def answer_in_rounds(url: str) -> None:
    async def ask(*_: Any) -> dict[str, Any]:
        between = await client.call("test_mrtr_unrelated")
        assert between.text == "unrelated-ok"
        return {"confirmed": True}

    async with Client(url, elicit=ask) as client:
        assert (await client.call("test_mrtr_echo_state")).text == "echo-state-ok"
        assert (await client.call("test_mrtr_no_state")).text == "no-state-ok"
        assert (await client.call("test_mrtr_no_result_type")).text == "no-result-type-test-ok"


@scenario("http-standard-headers")
async def ask_for_everything(url: str) -> None:
    async with Client(url) as client:
        for tool in await client.list_tools():
            await client.call(tool["name"])
        for resource in await client.list_resources():
            await client.read(resource["uri"])
        for prompt in await client.list_prompts():
            await client.get_prompt(prompt["name"])


@scenario("http-custom-headers")
async def call_as_told(url: str) -> None:
    async with Client(url) as client:
        for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
            await client.call(call["name"], call["arguments"])


@scenario("http-invalid-tool-headers")
async def call_what_is_left(url: str) -> None:
    async with Client(url) as client:
        tools = await client.list_tools()
        assert [tool["name"] for tool in tools] == ["valid_tool"]
        for tool in tools:
            await client.call(tool["name"], {"region": "eu"})


@scenario("json-schema-2020-12-preservation")
async def send_the_schema_back(url: str) -> None:
    async with Client(url) as client:
        [schema] = [
            tool["inputSchema"]
            for tool in await client.list_tools()
            if tool["name"] == "json_schema_2020_12_tool"
        ]
        await client.call("json_schema_echo", {"schema": schema})


class Visitor:
    """A browser whose user agrees to everything: the authorization servers of the suite show no page, and redirect."""

    redirect_uri = "http://localhost:3000/callback"

    @asynccontextmanager
    async def landing(self, registered: Sequence[str] = ()) -> AsyncIterator[Visitor]:
        yield self

    async def visit(self, url: str, state: str) -> Mapping[str, str]:
        async with httpx2.AsyncClient() as web:
            answer = await web.get(url, follow_redirects=False)
        return dict(parse_qsl(urlsplit(urljoin(url, answer.headers["location"])).query))


def oauth(**options: Any) -> OAuth:
    return OAuth(browser=Visitor(), storage=MemoryTokens(), **options)


def context() -> Mapping[str, Any]:
    told: Mapping[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    return told


async def use(url: str, auth: Any) -> None:
    async with Client(url, auth=auth) as client:
        [tool] = await client.list_tools()
        await client.call(tool["name"])


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
async def refuse(url: str) -> None:
    try:
        await use(url, oauth())
    except AuthorizationError as error:
        print(error, file=sys.stderr)
    else:
        raise AssertionError("it should not have gone on")


@scenario("auth/dpop", "auth/dpop-nonce")
async def prove_whose_the_token_is(url: str) -> None:
    await use(url, oauth(dpop=True))


@scenario("auth/basic-cimd")
async def be_known_by_a_document(url: str) -> None:
    await use(url, oauth(client_metadata_url="https://conformance-test.local/client-metadata.json"))


@scenario("auth/pre-registration")
async def be_known_before(url: str) -> None:
    told = context()
    issuer = told.get("issuer") or await issuer_of(url)
    await use(url, oauth(client_id=told["client_id"], client_secret=told["client_secret"], issuer=issuer))


@scenario("auth/client-credentials-basic")
async def ask_for_itself_with_a_secret(url: str) -> None:
    told = context()
    issuer = await issuer_of(url)
    await use(url, ClientCredentials(told["client_id"], told["client_secret"], issuer=issuer))


@scenario("auth/client-credentials-jwt")
async def ask_for_itself_with_a_key(url: str) -> None:
    told = context()
    key, algorithm = told["private_key_pem"], told["signing_algorithm"]
    await use(url, ClientCredentials(told["client_id"], private_key=key, algorithm=algorithm))


@scenario("auth/enterprise-managed-authorization", "auth/cross-app-access-complete-flow")
async def be_managed_by_an_enterprise(url: str) -> None:
    told = context()
    auth = EnterpriseManaged(
        told["client_id"],
        secret=told["client_secret"],
        issuer=await issuer_of(url),
        idp=told["idp_issuer"],
        idp_client_id=told["idp_client_id"],
        identity=told["idp_id_token"],
        storage=MemoryTokens(),
    )
    await use(url, auth)


@scenario("auth/wif-jwt-bearer")
async def be_known_by_where_it_runs(url: str) -> None:
    told = context()
    await use(url, WorkloadIdentity(told["client_id"], told["valid_jwt"], issuer=await issuer_of(url)))


async def issuer_of(url: str) -> str:
    """Return whom the first suite has told the credentials of: it does not say so, as an operator would know."""
    async with httpx2.AsyncClient() as web:
        metadata = await web.get(urljoin(url, "/.well-known/oauth-protected-resource/mcp"))
    return str(metadata.json()["authorization_servers"][0])


if __name__ == "__main__":
    asyncio.run(SCENARIOS[os.environ["MCP_CONFORMANCE_SCENARIO"]](sys.argv[-1]))  # type: ignore[arg-type]
