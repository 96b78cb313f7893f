"""Checks whether clients find the protected resource metadata, and whether it is about the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from ....auth.discovery import origin_urls, protected_resource_urls
from ....auth.urls import MetadataError, canonical, covers, origin, shortened
from ...http.request_authorization import Challenge
from .endpoint import challenge_of, of_offline_access
from .finding import Finding, found
from .looking import Answer, Looker, strings


class Resource:
    """The observed metadata.

    Args:
        url: The URL of the server.
        named: The URL in the challenge; None if there is none.
        at_path: The document at the path of the server.
        at_root: The document at the root; the same one for a server without a path.

    Attributes:
        found: The document that clients use; None if they find none.
    """

    def __init__(self, url: str, named: Answer | None, at_path: Answer, at_root: Answer) -> None:
        self._url = url
        self._named = named
        self._at_path = at_path
        self._at_root = at_root
        seen = [each for each in (named, at_path, at_root) if each is not None]
        self.found = next((each for each in seen if each.document is not None), None)

    @classmethod
    async def seen(cls, looker: Looker, url: str, challenge: Challenge | None) -> Resource:
        """Request the metadata at all URLs that clients use."""
        answers = {each: await looker.document(each) for each in protected_resource_urls(url)}
        at_path, at_root = (list(answers.values())[place] for place in (0, -1))
        where = challenge.parameters.get("resource_metadata", "") if challenge is not None else ""
        named = (answers.get(where) or await looker.document(where)) if _is_url(where) else None
        return cls(url, named, at_path, at_root)

    @property
    def is_about_server(self) -> bool:
        """Whether there is a document about the server, or about a URL above it."""
        resource = self._document.get("resource")
        return isinstance(resource, str) and self._mismatch(resource) in {
            "",
            "resource-slash",
            "resource-wide",
        }

    @property
    def issuers(self) -> tuple[str, ...]:
        """The authorization servers that it names."""
        return strings(self._document.get("authorization_servers"))

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that it names."""
        return strings(self._document.get("scopes_supported"))

    @property
    def _document(self) -> Mapping[str, object]:
        return {} if self.found is None else self.found.document or {}

    def findings(self) -> Iterator[Finding]:
        """Yield the findings about it."""
        tried = [self._at_path, self._at_root] if self._named is None else [self._named]
        unusable = {each.url: each for each in tried if each.document is None}
        for each in unusable.values():
            if each is self._named or (self.found is None and each.status not in {0, 404, 405}):
                yield self._unusable(each)
        if self.found is None:
            places = " or ".join(dict.fromkeys((self._at_path.url, self._at_root.url)))
            yield found("no-metadata", self._url, places=places)
            return
        yield from self._of_resource(self.found.url)
        yield from self._of_rest(self.found.url)

    @staticmethod
    def _unusable(answer: Answer) -> Finding:
        if answer.status in {401, 403}:
            return found("metadata-protected", answer.url, status=answer.status)
        return found("metadata-unusable", answer.url, problem=answer.problem)

    def _of_resource(self, where: str) -> Iterator[Finding]:
        resource = self._document.get("resource")
        if not isinstance(resource, str) or not resource:
            yield found("no-resource", where, server=shortened(self._url))
            return
        code = self._mismatch(resource)
        if code:
            yield found(code, where, resource=shortened(resource), server=shortened(self._url))

    def _mismatch(self, resource: str) -> str:
        """Return the code of a finding about the resource identifier; empty if it is correct."""
        try:
            if canonical(resource) == canonical(self._url):
                return ""
            is_above, is_elsewhere = covers(resource, self._url), origin(resource) != origin(self._url)
        except MetadataError:
            return "resource-mismatch"
        if is_above:
            return "resource-slash" if resource.rstrip("/") == self._url.rstrip("/") else "resource-wide"
        if is_elsewhere and urlsplit(resource).hostname == urlsplit(self._url).hostname:
            return "resource-http" if resource.startswith("http:") else "resource-origin"
        return "resource-origin" if is_elsewhere else "resource-mismatch"

    def _of_rest(self, where: str) -> Iterator[Finding]:
        if not self.issuers:
            yield found("no-issuer", where)
        methods = strings(self._document.get("bearer_methods_supported"))
        if methods and "header" not in methods:
            yield found("token-not-in-header", where, methods=shortened(", ".join(methods)))
        if "query" in methods:
            yield found("token-in-query", where)
        yield from of_offline_access(self.scopes, "The metadata (scopes_supported)", where)


async def of_sse(looker: Looker, url: str) -> list[Finding]:
    """Return the findings for HTTP+SSE clients, if the server supports that transport beside its endpoint."""
    parts = urlsplit(url)
    head, _, last = parts.path.rstrip("/").rpartition("/")
    if not last or last == "sse":
        return []
    sse = f"{origin(url)}{head}/sse"
    answer = await looker.ask("GET", sse, {"Accept": "text/event-stream"})
    if answer.status != 401:
        return []
    resource = await Resource.seen(looker, sse, challenge_of(answer))
    wrong = [each.why for each in resource.findings() if each.severity == "error"]
    return [found("sse-metadata", sse, server=shortened(sse), why=wrong[0])] if wrong else []


async def of_march(looker: Looker, url: str) -> list[Finding]:
    """Return the findings for clients of 2025-03-26, which know the origin of the server only."""
    [where], _ = origin_urls(url)
    answer = await looker.document(where)
    if answer.document is not None:
        return []
    return [found("march-foreign-issuer", where, own=origin(url))]


def _is_url(text: str) -> bool:
    try:
        origin(text)
    except MetadataError:
        return False
    return True
