"""What a function raises to end the process ends its call alone, over HTTP as well."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.helpers.asgi_client import Serve
from tests.helpers.exits import failing, unretrieved

__all__ = ["unretrieved"]

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit])
@pytest.mark.parametrize("name", ["coroutine", "waiting", "thread", "closes later"])
async def test_it_is_answered_over_http(
    name: str, error: type[BaseException], serve: Serve, unretrieved: list[dict[str, Any]]
) -> None:
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unretrieved.append(context))
    async with serve(failing(name, error)) as client:
        result = (await client.call("fail").response())["result"]
        assert result["isError"]
        session = await client.initialize()
        assert (await session.text("fail")).startswith("Internal error (ref ")
        assert await session.text("well") == "well"
