"""Checks the server's responses to requests without a token and with an invalid one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from ...._utils.package import __version__
from ....auth.urls import MetadataError, is_loopback, origin, shortened
from ....protocol.revisions import LATEST_HANDSHAKE
from ...http.request_authorization import Challenge
from .finding import Finding, found
from .looking import Answer, Looker

_BAD_TOKEN: Final = "Bearer mcpkit-looks-whether-a-bad-token-is-refused"
_CREDENTIALS: Final = frozenset(
    {"access_token", "token", "api_key", "apikey", "key", "auth", "authorization"}
)
_ASKED: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_INITIALIZE: Final = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": LATEST_HANDSHAKE,
            "capabilities": {},
            "clientInfo": {"name": "mcpkit-check", "version": __version__},
        },
    }
).encode()


class Endpoint:
    """The observed responses of the server.

    Args:
        url: The URL of the server.
        first: The response to a request without a token.
        bad: The response to a request with an invalid token; None if there was none.

    Attributes:
        first: The response to a request without a token.
        challenge: Its challenge; None if there is none.
    """

    def __init__(self, url: str, first: Answer, bad: Answer | None) -> None:
        self.first = first
        self.challenge = challenge_of(first)
        self._bad = bad
        self._url = url

    @classmethod
    async def seen(cls, looker: Looker, url: str) -> Endpoint:
        """Send requests without a token and with an invalid one. A session that the server opens is ended."""
        first = await looker.ask("POST", url, _ASKED, _INITIALIZE)
        bad = None
        if first.status:
            bad = await looker.ask("POST", url, {**_ASKED, "Authorization": _BAD_TOKEN}, _INITIALIZE)
        for each in (first, bad):
            if each is not None and (session := each.headers.get("mcp-session-id")) is not None:
                await looker.ask("DELETE", url, {"Mcp-Session-Id": session})
        return cls(url, first, bad)

    def findings(self, scopes: Iterable[str] = (), *, has_metadata: bool) -> Iterator[Finding]:
        """Yield the findings about the responses.

        Args:
            scopes: The scopes in its metadata.
            has_metadata: Whether the server publishes protected resource metadata.
        """
        yield from self._of_url()
        yield from self._of_first(scopes, has_metadata=has_metadata)
        yield from self._of_bad_token()

    def _of_url(self) -> Iterator[Finding]:
        parts = urlsplit(self._url)
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            yield found("not-https", self._url)
        if any(name.lower() in _CREDENTIALS for name, _ in parse_qsl(parts.query)):
            yield found("credential-in-url", self._url.partition("?")[0])
        if parts.path.endswith("/") and parts.path != "/":
            yield found("trailing-slash", self._url)

    def _of_first(self, scopes: Iterable[str], *, has_metadata: bool) -> Iterator[Finding]:
        status = self.first.status
        if not status:
            yield found("unreachable", self._url, problem=self.first.problem)
        elif status == 401:
            yield from self._of_challenge(scopes)
        elif 300 <= status < 400:
            code = "redirect-kept" if status in {307, 308} else "redirect"
            target = shortened(self.first.headers.get("location", ""))
            yield found(code, self._url, status=status, target=target)
        elif status < 300:
            yield found("anonymous" if has_metadata else "open", self._url)
        else:
            is_protected = has_metadata or status == 403
            yield found("first-is-no-401" if is_protected else "no-mcp", self._url, status=status)

    def _of_challenge(self, scopes: Iterable[str]) -> Iterator[Finding]:
        if self.challenge is None:
            schemes = " and ".join(shortened(each.scheme) for each in self.first.challenges)
            yield found("no-challenge", self._url, schemes=schemes or "none at all")
            return
        parameters = self.challenge.parameters
        if not parameters.get("resource_metadata"):
            yield found("challenge-without-metadata", self._url)
        if "scope" not in parameters and scopes:
            yield found("challenge-without-scope", self._url)
        if "error" in parameters:
            yield found("challenge-with-error", self._url, error=shortened(parameters["error"]))
        yield from of_offline_access(parameters.get("scope", "").split(), "The challenge", self._url)
        yield from self._of_metadata_url(parameters.get("resource_metadata", ""))

    def _of_metadata_url(self, named: str) -> Iterator[Finding]:
        try:
            is_elsewhere = bool(named) and origin(named) != origin(self._url)
        except MetadataError:
            is_elsewhere = True
        if is_elsewhere:
            is_http = named.startswith("http:") and self._url.startswith("https:")
            yield found("metadata-http" if is_http else "metadata-origin", self._url, named=shortened(named))

    def _of_bad_token(self) -> Iterator[Finding]:
        status = 401 if self._bad is None else self._bad.status
        if status in {0, 401} or 300 <= status < 400:
            return
        if status < 300:
            if self.first.status == 401:
                yield found("any-token", self._url)
            elif self.first.status < 300:
                yield found("bad-token-passes", self._url)
        elif self.first.status == 401:
            yield found("bad-token-is-no-401", self._url, status=status)


def of_offline_access(scopes: Iterable[str], what: str, url: str) -> Iterator[Finding]:
    """Yield a finding if the server names the scope `offline_access`, which is up to the authorization server."""
    if "offline_access" in scopes:
        yield found("offline-access", url, what=what)


def challenge_of(answer: Answer) -> Challenge | None:
    """Return the challenge for bearer or DPoP tokens; None if there is none."""
    return next((each for each in answer.challenges if each.scheme.lower() in {"bearer", "dpop"}), None)
