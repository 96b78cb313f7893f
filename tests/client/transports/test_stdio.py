"""The client's end of stdio: messages to a child process and back."""

from __future__ import annotations

import logging
import sys

import pytest

from child import ECHO, Received, ask, script, send
from mcpkit.client.errors import TransportError
from mcpkit.client.transports.stdio import StdioTransport

pytestmark = pytest.mark.anyio


async def test_messages_go_to_the_server_and_come_back() -> None:
    transport, received = StdioTransport(script(ECHO)), Received()
    await transport.open(received)
    assert await ask(transport, received, 1, text="é\u2028\n") == {"text": "é\u2028\n"}
    await transport.close()
    assert received.error is None


async def test_what_is_no_message_is_passed_over_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    noise = 'print("starting"); print("[INFO] ready"); print("{}\\n\\n", end="", flush=True)'
    transport, received = StdioTransport(script(noise + ECHO)), Received()
    with caplog.at_level(logging.WARNING, logger="mcpkit"):
        await transport.open(received)
        await send(transport, 1, a=1)
        assert await received.next() == {}
        assert (await received.next())["result"] == {"a": 1}
        await transport.close()
    [record] = caplog.records
    assert record.getMessage() == (
        f"The server ({sys.executable.rpartition('/')[2]}) prints what is no message to its standard output,"
        " which is passed over: starting"
    )


async def test_nothing_is_sent_without_a_server() -> None:
    transport = StdioTransport(script(ECHO))
    with pytest.raises(TransportError, match="has not been started") as raised:
        await send(transport, 1)
    assert not raised.value.may_have_begun
