"""The official Python client with a user who logs in for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

from tests.helpers.browser import Login
from tests.interop.authorization.user import DOCUMENT

TIME_OUT = 60


class Kept:
    """What the client keeps."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def authorization(
    url: str, kept: Kept, log_in: Callable[[str], Login], **options: Any
) -> OAuthClientProvider:
    answers: list[dict[str, str]] = []

    async def redirect(request: str) -> None:
        login = await anyio.to_thread.run_sync(log_in, request)
        answers.append(login.answer)

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult.model_validate(answers.pop())

    metadata = OAuthClientMetadata(client_name="Python", redirect_uris=DOCUMENT["redirect_uris"])
    return OAuthClientProvider(url, metadata, kept, redirect, callback, **options)


@asynccontextmanager
async def connected(url: str, auth: httpx2.Auth, **options: Any) -> AsyncIterator[Client]:
    """Connect over HTTP, or over HTTP with SSE where the URL ends with `/sse`."""
    with anyio.fail_after(TIME_OUT):
        if url.endswith("/sse"):
            async with Client(sse_client(url, auth=auth), **options) as client:
                yield client
        else:
            async with (
                create_mcp_http_client(auth=auth) as http,
                Client(streamable_http_client(url, http_client=http), cache=None, **options) as client,
            ):
                yield client
