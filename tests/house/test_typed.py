"""`typed/author.py` is for the type checkers; here it shows that it is a server that runs, too."""

from __future__ import annotations

import pytest

from mcpkit.testing import connect
from tests.typed.author import server


@pytest.mark.anyio
async def test_what_the_checkers_have_read_is_registered():
    async with connect(server) as client:
        tools = [each["name"] for each in await client.list_tools()]
        prompts = [each["name"] for each in await client.list_prompts()]
        called = await client.call("called", {"table": "stars"})
    assert tools == ["bare", "called", "more_registered", "paint", "colours", "mix", "injected"]
    assert prompts == ["bare_prompt", "called_prompt", "describe"]
    assert called.structured == 5
