"""`Server(encrypt_state=True)`: what the client carries from round to round is nothing that it can read."""

from __future__ import annotations

import json
import subprocess
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server
from mcpkit.common.installation import install_command
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

SECRET = "a secret of the tests"
OLD = "an older secret of the tests"
NAME = {"name": {"action": "accept", "content": {"value": "Ada Lovelace"}}}
PIN = {"pin": {"action": "accept", "content": {"value": 1815}}}
SIGN_IN: dict[str, Any] = {"name": "sign_in", "arguments": {}}


def make_server(secret: str | list[str] = SECRET, **options: Any) -> Server:
    server = Server("door", secret=secret, **options)

    @server.tool
    async def sign_in(ctx: Context) -> str:
        name = (await ctx.elicit("Who?", str, key="name")).value
        ticket = await ctx.once("ticket", lambda: "ticket-4711")
        pin = (await ctx.elicit("PIN?", int, key="pin")).value
        return f"{name} {ticket} {pin}"

    @server.tool
    async def much(ctx: Context, size: int) -> str:
        await ctx.once("much", lambda: "x" * size)
        return (await ctx.elicit("Who?", str)).value

    return server


async def make_round(server: Server, **more: Any) -> dict[str, Any]:
    """Make one round of `sign_in`."""
    async with connect(server, capabilities={"elicitation": {}}) as client:
        return await client.request("tools/call", {**SIGN_IN, **more})


async def second_state(server: Server) -> str:
    """Return a state that holds an answer and what `once` returned."""
    return str((await make_round(server, inputResponses=NAME))["requestState"])


async def test_the_answers_are_not_in_the_state() -> None:
    packed = urlsafe_b64decode(await second_state(make_server(encrypt_state=True)))
    for text in (b"Ada", b"Lovelace", b"ticket", b"4711", b"answered", b"name"):
        assert text not in packed


async def test_without_encryption_they_are() -> None:
    packed = urlsafe_b64decode(await second_state(make_server()))
    told = json.loads(packed[32:])
    assert told["answered"]["name"][1] == NAME["name"]
    assert told["once"] == {"ticket": "ticket-4711"}


@pytest.mark.parametrize("encrypt_state", [False, True])
async def test_the_rounds_go_on_alike(encrypt_state: bool) -> None:
    server = make_server(encrypt_state=encrypt_state)
    state = await second_state(server)
    result = await make_round(server, inputResponses=PIN, requestState=state)
    assert result["content"][0]["text"] == "Ada Lovelace ticket-4711 1815"


async def test_any_process_with_the_secret_goes_on() -> None:
    state = await second_state(make_server(encrypt_state=True))
    other = make_server(encrypt_state=True)
    assert (await make_round(other, inputResponses=PIN, requestState=state))["resultType"] == "complete"


async def test_equal_states_look_different() -> None:
    server = make_server(encrypt_state=True)
    first = (await make_round(server))["requestState"]
    states = [(await make_round(server, requestState=first))["requestState"] for _ in range(10)]
    assert len({state[:16] for state in states}) == 10


async def test_a_change_of_any_byte_is_refused() -> None:
    server = make_server(encrypt_state=True)
    packed = urlsafe_b64decode(await second_state(server))
    async with connect(server, capabilities={"elicitation": {}}) as client:
        for place in range(len(packed)):
            changed = bytearray(packed)
            changed[place] ^= 0x20
            state = urlsafe_b64encode(changed).decode()
            with pytest.raises(ProtocolError, match="none that this server has given"):
                await client.request("tools/call", {**SIGN_IN, "requestState": state})


@pytest.mark.parametrize("encrypt_state", [False, True])
async def test_the_other_kind_is_refused_as_any_state_that_was_not_given(encrypt_state: bool) -> None:
    state = await second_state(make_server(encrypt_state=not encrypt_state))
    with pytest.raises(ProtocolError) as error:
        await make_round(make_server(encrypt_state=encrypt_state), requestState=state)
    assert error.value.code == -32602
    assert error.value.message == (
        "requestState cannot be taken: it is none that this server has given. Make the request again without it"
    )


async def test_secrets_are_rotated() -> None:
    old = await second_state(make_server(OLD, encrypt_state=True))
    both = make_server([SECRET, OLD], encrypt_state=True)
    assert (await make_round(both, inputResponses=PIN, requestState=old))["resultType"] == "complete"
    new = await second_state(both)
    only_new = make_server(encrypt_state=True)
    assert (await make_round(only_new, inputResponses=PIN, requestState=new))["resultType"] == "complete"
    with pytest.raises(ProtocolError, match="none that this server has given"):
        await make_round(only_new, inputResponses=PIN, requestState=old)


@pytest.mark.parametrize("encrypt_state", [False, True])
async def test_the_state_has_at_most_16_kib(encrypt_state: bool) -> None:
    server = make_server(encrypt_state=encrypt_state)
    async with connect(server, capabilities={"elicitation": {}}) as client:
        params = {"name": "much", "arguments": {"size": 11_900}}
        state = (await client.request("tools/call", params))["requestState"]
        assert 15_000 < len(state) <= 16 * 1024
        again = await client.request("tools/call", {**params, "requestState": state})
        assert again["resultType"] == "input_required"
        with pytest.raises(ProtocolError, match=r"^Internal error"):
            await client.request("tools/call", {"name": "much", "arguments": {"size": 12_200}})


# What has to be installed


def run(program: str) -> str:
    """Run a program in a process of its own, and return what it prints."""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


WITHOUT = """
import sys

sys.modules["cryptography"] = None  # which makes its import fail as if it were not there
from mcpkit import Server

Server("plain", secret="a secret of the tests")
try:
    Server("door", encrypt_state=True)
except ImportError as error:
    print(error)
"""


@pytest.mark.slow
def test_the_server_says_at_once_what_is_to_be_installed() -> None:
    assert run(WITHOUT) == f"encryption needs cryptography. Run: {install_command('crypto')}"


ASKS = """
import asyncio, sys
from mcpkit import Context, Server
from mcpkit.testing import connect

server = Server("door", secret="a secret of the tests"%s)

@server.tool(single_use=True)
async def name(ctx: Context) -> str:
    return (await ctx.elicit("Who?", str)).value

async def main():
    ada = lambda method, params: {"action": "accept", "content": {"value": "Ada"}}
    async with connect(server, answers=ada) as client:
        print((await client.call("name")).text, "cryptography" in sys.modules)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("option", "is_loaded"), [("", "False"), (", encrypt_state=True", "True")])
def test_it_is_loaded_for_those_alone_who_ask(option: str, is_loaded: str) -> None:
    assert run(ASKS % option) == f"Ada {is_loaded}"
