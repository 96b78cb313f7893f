"""Records traffic of a server and finds secrets in it, in every encoding."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus


@dataclass
class Exchange:
    method: str
    path: str
    query: str
    sent: bytes = b""
    status: int | None = None
    answered: bytes = b""

    @property
    def asked(self) -> dict[str, str]:
        return dict(parse_qsl(self.query or self.sent.rpartition(b"\n")[2].decode()))

    @property
    def said(self) -> Any:
        return json.loads(self.answered.rpartition(b"\n")[2])


class Wire:
    def __init__(self, app: Any) -> None:
        self._app = app
        self.passed: list[Exchange] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        one = Exchange(scope["method"], path, scope["query_string"].decode())
        one.sent = _head(scope["headers"])
        self.passed.append(one)

        async def received() -> Any:
            event = await receive()
            one.sent += event.get("body", b"")
            return event

        async def sent(event: Any) -> None:
            if event["type"] == "http.response.start":
                one.status = event["status"]
                one.answered = _head(event["headers"])
            one.answered += event.get("body", b"")
            await send(event)

        return await self._app(scope, received, sent)

    def seen(self, path: str, method: str = "GET") -> list[Exchange]:
        return [each for each in self.passed if (each.path, each.method) == (path, method)]

    def text(self) -> bytes:
        return b"\n".join(
            part for each in self.passed for part in (each.query.encode(), each.sent, each.answered)
        )


def contains(text: bytes, secret: str) -> bool:
    return any(form in text for form in _forms(secret))


def _head(headers: Any) -> bytes:
    return b"".join(name + b": " + value + b"\n" for name, value in headers) + b"\n"


def _forms(secret: str) -> Iterator[bytes]:
    for form in (secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]):
        yield form.encode()
    for before in range(3):  # how many bytes of three stand before it
        begin, end = (0, 2, 3)[before], (before + len(secret.encode())) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + secret.encode() + bytes(2))[begin:end]
