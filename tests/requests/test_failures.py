"""What clients read of an exception that nobody meant for them."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import PromptError, ProtocolError, ResourceError, ResourceNotFoundError, Server, ToolError
from mcpkit.engine.error_hooks import Failure
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class UnreadableProblemError(PromptError):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def serving(error: Exception, **options: Any) -> Server:
    server = Server("s", **options)

    @server.tool
    def tool() -> None:
        raise error

    @server.resource("a://b")
    def resource() -> str:
        raise error

    @server.prompt
    def prompt() -> str:
        raise error

    return server


async def answers(server: Server) -> list[str]:
    """Return what a client reads of a tool, a resource and a prompt that fail."""
    async with connect(server) as client:
        result = await client.call("tool")
        assert result.is_error
        texts = [result.text]
        for request in (client.read("a://b"), client.get_prompt("prompt")):
            with pytest.raises(ProtocolError) as caught:
                await request
            texts.append(caught.value.message)
    return texts


async def test_an_unexpected_exception_is_masked(caplog: pytest.LogCaptureFixture) -> None:
    for text in await answers(serving(ConnectionError("postgres://admin:hunter2@10.0.0.7"))):
        assert (ref := re.fullmatch(r"Internal error \(ref ([0-9a-f]{8})\)", text))
        assert f"ref {ref[1]}" in caplog.text
    assert "hunter2" in caplog.text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionError("no route to host"), "ConnectionError: no route to host"),
        (KeyError("a"), "KeyError: 'a'"),
        (ValueError(), "ValueError"),
        (ValueError("two\nlines"), "ValueError: two\nlines"),
        (ValueError("half \ud800"), "ValueError: half ?"),
    ],
)
async def test_type_and_text_are_shown_on_request(
    caplog: pytest.LogCaptureFixture, error: Exception, text: str
) -> None:
    for answer in await answers(serving(error, mask_errors=False)):
        assert (found := re.fullmatch(r"(.*) \(ref ([0-9a-f]{8})\)", answer, re.DOTALL))
        assert found[1] == text
        assert f"ref {found[2]}" in caplog.text
        assert "Traceback" not in answer
    assert "Traceback" in caplog.text


async def test_the_log_names_what_the_request_is_about_where_it_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = serving(ValueError())

    @server.middleware("tools/list")
    async def fail(request: Request, call_next: CallNext) -> Result:
        raise ValueError

    await answers(server)
    async with connect(server) as client:
        with pytest.raises(ProtocolError):
            await client.list_tools()
    logged = [re.sub("ref .*", "ref", record.getMessage()) for record in caplog.records]
    assert logged == [
        "tools/call 'tool' failed (ref",
        "resources/read 'a://b' failed (ref",
        "prompts/get 'prompt' failed (ref",
        "tools/list failed (ref",
    ]


async def test_an_exception_without_a_text_is_shown_too(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("mcpkit").disabled = True
    try:
        (answer, *_) = await answers(serving(UnreadableError(), mask_errors=False))
    finally:
        logging.getLogger("mcpkit").disabled = False
    assert "UnreadableError: <exception str() failed>" in answer


async def test_what_the_author_says_is_sent_as_it_is_either_way() -> None:
    for is_masked in (True, False):
        server = Server("s", mask_errors=is_masked)

        @server.tool
        def tool() -> None:
            raise ToolError("There is no such city.")

        async with connect(server) as client:
            assert (await client.call("tool")).text == "There is no such city."


@pytest.mark.parametrize(
    "error",
    [UnreadableProblemError(), ResourceNotFoundError(3), ProtocolError(-1, "said", object())],  # type: ignore[arg-type]  # as authors without a type checker write it
)
async def test_an_error_that_cannot_be_said_is_answered_all_the_same(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(serving(error)) as client:
        with pytest.raises(ProtocolError, match=r"Internal error \(ref ") as raised:
            await asyncio.wait_for(client.get_prompt("prompt"), 10)
    assert raised.value.code == -32603
    assert "failed (ref" in caplog.text


def unsayable(base: type[Exception], text: Callable[[Any], Any]) -> Exception:
    """Return an exception of a class whose `__str__` is `text`."""
    made: Exception = type("UnsayableError", (base,), {"__str__": text, "__module__": "builtins"})("hidden")
    return made


def without_text(error: object) -> str:
    raise SystemExit("hidden")


@pytest.mark.parametrize("base", [ToolError, ResourceError, PromptError, ValueError])
@pytest.mark.parametrize("text", [UnreadableError.__str__, without_text, lambda _: None, lambda _: b"hidden"])
@pytest.mark.parametrize("mask_errors", [True, False])
async def test_an_error_without_a_text_is_like_one_that_nobody_meant(
    base: type[Exception], text: Callable[[Any], Any], mask_errors: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = serving(unsayable(base, text), mask_errors=mask_errors)
    heard: list[Failure] = []
    server.on_error(heard.append)
    told = await answers(server)
    for text_told in told:
        assert (ref := re.search(r"\(ref ([0-9a-f]{8})\)$", text_told))
        assert f"failed (ref {ref[1]})" in caplog.text
        assert "hidden" not in text_told
        assert text_told.startswith("Internal error" if mask_errors else "UnsayableError: ")
    assert [failure.ref is not None for failure in heard] == [True] * 3


async def test_a_result_that_fails_with_what_has_no_text_is_explained_all_the_same() -> None:
    server = Server("s", mask_errors=False)

    class Row(dict[str, Any]):
        def items(self) -> Any:
            raise UnreadableError

    @server.tool
    def tool() -> Any:
        return Row(a=1)

    async with connect(server) as client:
        result = await client.call("tool")
    assert result.is_error
    assert result.text.startswith("the tool ran, but result could not be read: UnreadableError was raised")
    assert result.text.endswith("(UnreadableError: its text cannot be read)")


@pytest.mark.parametrize("arguments", [("-1", "text"), (-1, ValueError("text")), (None, "text")])
def test_an_error_of_the_protocol_has_a_number_and_a_text(arguments: Any) -> None:
    with pytest.raises(TypeError, match="a code and a message, an int and a str, not "):
        ProtocolError(*arguments)


@pytest.mark.parametrize("error", [ToolError(), PromptError(""), ProtocolError(-31000, "")], ids=repr)
async def test_an_error_without_a_text_says_that_it_has_none(error: Exception) -> None:
    server = serving(error)
    async with connect(server) as client:
        for request in (client.read("a://b"), client.get_prompt("prompt")):
            with pytest.raises(ProtocolError) as caught:
                await request
            assert caught.value.message == "The request failed, and its handler did not say why."
