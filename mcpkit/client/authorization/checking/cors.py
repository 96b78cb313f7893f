"""Checks whether web pages may read the responses that a login needs (CORS)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .finding import Finding, found
from .looking import Answer, Looker

_HEADERS: Final = "authorization,content-type,mcp-protocol-version"


class Pages:
    """Sends requests like pages of one origin.

    Args:
        looker: Sends the requests.
        origin: The origin of the pages.
    """

    def __init__(self, looker: Looker, origin: str) -> None:
        self._looker = looker
        self._origin = origin
        self._places: list[str] = []

    async def at_server(self, url: str) -> None:
        """Check whether pages may send requests to a server, and read its challenge."""
        await self.at_endpoint("the server", url, _HEADERS)
        answer = await self._looker.ask(
            "POST", url, {"Origin": self._origin, "Content-Type": "application/json"}, b"{}"
        )
        exposed = _list(answer.headers, "access-control-expose-headers")
        if answer.status == 401 and not (self._may_read(answer) and exposed & {"www-authenticate", "*"}):
            self._places.append("the WWW-Authenticate header of its 401 response")

    async def at_document(self, what: str, url: str) -> None:
        """Check whether pages may read a document."""
        answer = await self._looker.ask("GET", url, {"Origin": self._origin, "Accept": "application/json"})
        if not self._may_read(answer):
            self._places.append(what)

    async def at_endpoint(self, what: str, url: str, headers: str = "content-type") -> None:
        """Check whether pages may post to an endpoint, for which browsers send a preflight request."""
        asked = {
            "Origin": self._origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": headers,
        }
        answer = await self._looker.ask("OPTIONS", url, asked)
        allowed = _list(answer.headers, "access-control-allow-headers")
        may_send = set(headers.split(",")) <= allowed or ("*" in allowed and "authorization" not in headers)
        if not (200 <= answer.status < 300 and self._may_read(answer) and may_send):
            self._places.append(what)

    def findings(self, url: str) -> list[Finding]:
        """Return the findings about responses that pages cannot read."""
        if not self._places:
            return []
        return [found("cors", url, origin=self._origin, places="; ".join(self._places))]

    def _may_read(self, answer: Answer) -> bool:
        return answer.headers.get("access-control-allow-origin") in {"*", self._origin}


def _list(headers: Mapping[str, str], name: str) -> set[str]:
    return {each.strip().lower() for each in headers.get(name, "").split(",")}
