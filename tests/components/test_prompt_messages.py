"""What a prompt's function may return, as messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcpkit import Image, ProtocolError, ResourceLink, Server, assistant, user
from mcpkit.common.errors import OutputError
from mcpkit.components.prompts import to_messages
from mcpkit.testing import connect
from tests.helpers.contents import PNG, encoded

pytestmark = pytest.mark.anyio


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": text}}


def yielded() -> Iterator[Any]:
    yield "a"
    yield assistant("b")


IMAGE = {"type": "image", "data": encoded(PNG), "mimeType": "image/png"}
RESOURCE = {"type": "resource", "resource": {"uri": "a:b", "text": "c"}}
LINK = {"type": "resource_link", "uri": "a:b", "name": "c"}


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("a", [said("user", "a")]),
        (assistant("a"), [said("assistant", "a")]),
        ({"role": "assistant", "content": "a"}, [said("assistant", "a")]),
        (
            ["a", {"role": "assistant", "content": "b"}, user("c")],
            [said("user", "a"), said("assistant", "b"), said("user", "c")],
        ),
        (({"role": "user", "content": {"type": "text", "text": "a"}},), [said("user", "a")]),
        ({"role": "user", "content": IMAGE}, [{"role": "user", "content": IMAGE}]),
        ({"role": "user", "content": RESOURCE}, [{"role": "user", "content": RESOURCE}]),
        ({"role": "user", "content": LINK}, [{"role": "user", "content": LINK}]),
        ({"role": "user", "content": Image(data=PNG)}, [{"role": "user", "content": IMAGE}]),
        (
            {"role": "user", "content": ["a", {"type": "text", "text": "b"}, Image(data=PNG)]},
            [said("user", "a"), said("user", "b"), {"role": "user", "content": IMAGE}],
        ),
        ({"role": "user", "content": ResourceLink("a:b", "c")}, [{"role": "user", "content": LINK}]),
        ({"role": "user", "content": {"days": 3}}, [said("user", '{"days":3}')]),
        # What has no role and content is data.
        ({"content": "a"}, [said("user", '{"content":"a"}')]),
        ([{"role": "admin", "name": "Ada"}], [said("user", '{"role":"admin","name":"Ada"}')]),
        (yielded(), [said("user", "a"), said("assistant", "b")]),
        ([], []),
        (None, []),
    ],
)
def test_messages(value: Any, messages: list[Any]) -> None:
    assert to_messages(value) == messages


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            [{"role": "system", "content": "a"}],
            r'result\[0\]\.role: expected "user" or "assistant", got "system"; what a system prompt says',
        ),
        ({"role": 1, "content": "a"}, r'result\.role: expected "user" or "assistant", got an int'),
        ({"role": "user"}, r"result\.content: expected text or other content, but it is missing"),
        (
            {"role": "user", "content": "a", "name": "b"},
            r'result\.name: unknown key; a message has "role" and',
        ),
        (
            ["x", {"role": "user", "content": {"type": "image_url", "url": "u"}}],
            r'result\[1\]\.content\.type: expected one of text, image, .*, got "image_url"',
        ),
        (
            {"role": "user", "content": [{"type": "text"}]},
            r"result\.content\[0\]\.text: expected a string, but it is missing",
        ),
        (
            {"role": "user", "content": {"type": "image", "data": PNG, "mimeType": "image/png"}},
            r"result\.content\.data: expected a string, got a bytes",
        ),
        ({"role": "user", "content": {"type": "resource"}}, r"result\.content\.resource: expected an object"),
        (
            {"role": "user", "content": {"type": "resource", "resource": {"text": ""}}},
            r"result\.content\.resource\.uri: expected a string, but it is missing",
        ),
        (
            {"role": "user", "content": {"type": "resource", "resource": {"uri": "a:b"}}},
            r"result\.content\.resource: expected text, or blob in base64",
        ),
        (
            {"role": "user", "content": {"type": "text", "text": "a", "_meta": {"a": object()}}},
            r"result\.content\._meta\.a has no form in JSON: an object",
        ),
    ],
)
def test_what_is_wrong_with_a_message_is_said_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(OutputError, match=message):
        to_messages(value)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_messages_written_as_dicts_arrive(revision: str) -> None:
    server = Server("s")

    @server.prompt
    def review(language: str) -> list[dict[str, Any]]:
        return [
            {"role": "user", "content": f"Review my {language}."},
            {"role": "assistant", "content": {"type": "text", "text": "Gladly."}},
        ]

    @server.prompt
    def wrong() -> dict[str, Any]:
        return {"role": "system", "content": "Be brief."}

    async with connect(server, revision=revision) as client:
        messages = await client.get_prompt("review", {"language": "Rust"})
        assert messages == [said("user", "Review my Rust."), said("assistant", "Gladly.")]
        with pytest.raises(
            ProtocolError, match=r"the prompt was made, but result\.role: expected"
        ) as refused:
            await client.get_prompt("wrong")
        assert refused.value.code == -32603
