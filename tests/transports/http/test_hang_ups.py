"""A client that closes its connection, at any moment and below any middleware, is logged as no error."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

from tests.helpers.wire_requests import PATIENCE, make_server, opened, start

MOMENTS = ("half a body", "wait", "block", "report", "get", "sse", "listen", "unread", "handshake wait")


class Titled(BaseHTTPMiddleware):
    async def dispatch(
        self, request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await call_next(request)
        response.headers["X-Frame-Options"] = "DENY"
        return response


class Strict:
    """Middleware that insists on a response, as middleware for metrics and tracing does."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        status = None

        async def note(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        await self.app(scope, receive, note)
        if scope["type"] == "http":
            assert status is not None, "the app has sent no response"


def fastapi(app: Any) -> Any:
    site = FastAPI()
    site.middleware("http")(Titled(site).dispatch)
    site.mount("/", app)
    return site


def below(*middleware: Any) -> Callable[[Any], Any]:
    return lambda app: Starlette(
        routes=[Mount("/", app)], middleware=[Middleware(each) for each in middleware]
    )


STACKS = {
    "base": below(Titled),
    "two": below(Titled, GZipMiddleware, Titled),
    "strict": below(Strict),
    "strict in base": below(Titled, Strict),
    "fastapi": fastapi,
}


@pytest.mark.parametrize("parser", ["h11", "httptools"])
@pytest.mark.parametrize("stack", STACKS)
def test_a_client_that_hangs_up_at_any_moment_is_no_error(
    stack: str, parser: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun, released = threading.Event(), threading.Event()
    server, thread, address = start(STACKS[stack](make_server(begun, released).asgi()), http=parser)
    for moment in MOMENTS:
        begun.clear()
        with opened(address, moment):
            if moment.endswith(("wait", "block")):
                assert begun.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while server.server_state.tasks:
            assert time.monotonic() < deadline, f"{moment}: the request is still served"
            time.sleep(0.005)
        errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert errors == [], moment
    released.set()
    server.should_exit = True
    thread.join(PATIENCE)
