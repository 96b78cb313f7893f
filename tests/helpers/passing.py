"""What passes between a server and whoever asks it, kept to the byte, and whether a secret is in it in any dress."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus


@dataclass
class Passed:
    """A request and the answer to it.

    Attributes:
        method: Its method.
        path: Its path, as the server in front has sent it.
        query: Its query.
        sent: Its headers and its body.
        status: The status of the answer; None until there is one.
        answered: The headers and the body of the answer.
    """

    method: str
    path: str
    query: str
    sent: bytes = b""
    status: int | None = None
    answered: bytes = b""

    @property
    def asked(self) -> dict[str, str]:
        """The parameters of the query, or of a form where there is no query."""
        return dict(parse_qsl(self.query or self.sent.rpartition(b"\n")[2].decode()))

    @property
    def said(self) -> Any:
        """The JSON of the answer."""
        return json.loads(self.answered.rpartition(b"\n")[2])


class Wire:
    """An ASGI app that keeps all that goes into another and comes out.

    Attributes:
        passed: What it was so far.
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self.passed: list[Passed] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        one = Passed(scope["method"], path, scope["query_string"].decode())
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

    def seen(self, path: str, method: str = "GET") -> list[Passed]:
        """The requests of a path so far."""
        return [each for each in self.passed if (each.path, each.method) == (path, method)]

    def text(self) -> bytes:
        """All that has passed, in both directions."""
        return b"\n".join(
            part for each in self.passed for part in (each.query.encode(), each.sent, each.answered)
        )


def holds(text: bytes, secret: str) -> bool:
    """Say whether a text has a secret in it: as it is, percent-encoded, in JSON, or in Base64 of more than it."""
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
