"""Documents of clients where authorization servers of this process look for them, in place of the public internet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

import httpx2

PUBLIC = "mcpkit.auth.authority.public_internet.public_client"


@contextmanager
def documented(documents: Mapping[str, object]) -> Iterator[list[str]]:
    """Let these documents be all that there is until the end of the block, by URL; gives the URLs that are asked."""
    asked: list[str] = []

    async def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        found = documents.get(asked[-1])
        return httpx2.Response(404) if found is None else httpx2.Response(200, json=found)

    def client() -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(answer))

    with patch(PUBLIC, client):
        yield asked
