"""A provider of keys and metadata behind a real HTTP server in a thread, which tests break and mend."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.helpers.serving import in_thread
from tests.helpers.signed_tokens import Signer

METADATA = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
KEYS = "/keys"
INTROSPECTION = "/introspect"


class Provider:
    """What it answers; all of it may be changed at any time.

    Attributes:
        url: The issuer.
        asked: How often each path was asked for.
        keys: The JWK Set.
        headers: Headers of the keys.
        tokens: What is answered of tokens that are asked about.
        asked_about: The header Authorization and the form of each such question.
        metadata: More for the metadata; None leaves a member out.
        places: The paths at which there is metadata.
        instead: What is answered in place of all else.
        is_open: Cleared, requests are held until it is set.
        is_asked: Set when a request has come.
    """

    def __init__(self, *signers: Signer) -> None:
        self.url = ""
        self.asked: Counter[str] = Counter()
        self.headers: dict[str, str] = {}
        self.metadata: dict[str, Any] = {}
        self.tokens: dict[str, Any] = {}
        self.asked_about: list[tuple[str | None, dict[str, Any]]] = []
        self.places = {METADATA}
        self.instead: Callable[[Request], Response | None] = lambda _: None
        self.is_open = threading.Event()
        self.is_open.set()
        self.is_asked = threading.Event()
        self.publish(*signers)

    def publish(self, *signers: Signer) -> None:
        """Change the keys."""
        self.keys: Any = {"keys": [each.public() for each in signers]}

    def break_down(self, status: int = 503) -> None:
        """Answer nothing but a status."""
        self.instead = lambda _: Response(status_code=status)

    def mend(self) -> None:
        """Answer as before."""
        self.instead = lambda _: None

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        path = request.url.path
        self.asked[path] += 1
        self.is_asked.set()
        if not self.is_open.is_set():
            await anyio.to_thread.run_sync(self.is_open.wait)
        instead = self.instead(request)
        if instead is not None:
            return instead
        if path == KEYS:
            return JSONResponse(self.keys, headers=self.headers)
        if path == INTROSPECTION:
            form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
            self.asked_about.append((request.headers.get("authorization"), form))
            return JSONResponse(self.tokens.get(form["token"], {"active": False}))
        if path in self.places:
            told = {
                "issuer": self.url,
                "jwks_uri": self.url + KEYS,
                "introspection_endpoint": self.url + INTROSPECTION,
                **self.metadata,
            }
            return JSONResponse({name: value for name, value in told.items() if value is not None})
        return Response(status_code=404)

    @property
    def fetches(self) -> int:
        """How often the keys were asked for."""
        return self.asked[KEYS]


@contextmanager
def providing(*signers: Signer) -> Iterator[Provider]:
    """Serve a provider with some keys until the end of the block."""
    provider = Provider(*signers)
    routes = [Route("/{path:path}", provider.answer, methods=["GET", "POST"])]
    with in_thread(Starlette(routes=routes)) as provider.url:
        try:
            yield provider
        finally:
            provider.is_open.set()
