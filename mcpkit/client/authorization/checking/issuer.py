"""Checks whether clients find the authorization server and can log in there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ....auth.discovery import AuthorizationServerMetadata, authorization_server_urls
from ....auth.urls import MetadataError, shortened
from .finding import Finding, found
from .looking import Looker, strings

_CODE, _REFRESH = "authorization_code", "refresh_token"


class Issuer:
    """The observed authorization server.

    Args:
        issuer: The issuer, as the server names it.
        document: Its metadata; None if there is none.
        url: The URL of the metadata, or where it was expected.
        findings: The findings while retrieving it.

    Attributes:
        url: The URL of the metadata, or where it was expected.
        is_found: Whether there is metadata.
    """

    def __init__(
        self, issuer: str, document: Mapping[str, object] | None, url: str, findings: Iterable[Finding] = ()
    ) -> None:
        self.url = url
        self.is_found = document is not None
        self._issuer = issuer
        self._document = document
        self._findings = findings

    @classmethod
    async def seen(cls, looker: Looker, issuer: str, where: str) -> Issuer:
        """Request its metadata at all URLs that clients use.

        Args:
            looker: Sends the requests.
            issuer: The issuer.
            where: The URL of the document that names the issuer.
        """
        try:
            urls = authorization_server_urls(issuer)
        except MetadataError as error:
            return cls(
                issuer,
                None,
                where,
                [found("issuer-unusable", where, issuer=shortened(issuer), problem=error)],
            )
        tried: list[str] = []
        is_there = False
        for url in urls:
            answer = await looker.document(url)
            if answer.document is not None:
                return cls(issuer, answer.document, url)
            is_there = is_there or answer.status > 0
            tried.append(f"{url}: {answer.problem}.")
        code = "issuer-metadata" if is_there else "issuer-unreachable"
        missing = found(code, where, issuer=shortened(issuer), tried=" ".join(tried))
        return cls(issuer, None, where, [missing])

    def endpoints(self) -> Iterator[tuple[str, str]]:
        """Yield the endpoints that clients send requests to, by name."""
        metadata = AuthorizationServerMetadata(self._issuer, self._document or {})
        for name in ("token_endpoint", "registration_endpoint"):
            try:
                yield name, metadata.endpoint(name)
            except MetadataError:
                continue

    def findings(self, scopes: Iterable[str]) -> Iterator[Finding]:
        """Yield the findings about it.

        Args:
            scopes: The scopes that the server names.
        """
        yield from self._findings
        if self._document is None:
            return
        yield from self._of_issuer()
        yield from self._of_endpoints()
        yield from self._of_login()
        yield from self._of_registration()
        known = strings(self._document.get("scopes_supported"))
        unknown = [scope for scope in scopes if known and scope not in known]
        if unknown:
            yield self._found("unknown-scopes", scopes=shortened(" ".join(unknown)))

    def _found(self, code: str, **facts: object) -> Finding:
        return found(code, self.url, issuer=shortened(self._issuer), **facts)

    def _of_issuer(self) -> Iterator[Finding]:
        says = str((self._document or {}).get("issuer"))
        if says != self._issuer:
            is_slash = says.rstrip("/") == self._issuer.rstrip("/")
            yield self._found("issuer-slash" if is_slash else "issuer-mismatch", named=shortened(says))

    def _of_endpoints(self) -> Iterator[Finding]:
        metadata = AuthorizationServerMetadata(self._issuer, self._document or {})
        for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
            if name == "registration_endpoint" and not metadata.has(name):
                continue
            try:
                metadata.endpoint(name)
            except MetadataError as error:
                yield self._found("no-endpoint", endpoint=name, problem=error)

    def _of_login(self) -> Iterator[Finding]:
        document = self._document or {}
        types, grants = (
            strings(document.get(name)) for name in ("response_types_supported", "grant_types_supported")
        )
        if types and "code" not in types:
            yield self._found("no-code", what="response_types_supported")
        elif grants and _CODE not in grants:
            yield self._found("no-code", what="grant_types_supported")
        if "S256" not in strings(document.get("code_challenge_methods_supported")):
            yield self._found("no-pkce")
        if grants and _CODE in grants and _REFRESH not in grants:
            yield self._found("no-refresh")
        if document.get("authorization_response_iss_parameter_supported") is not True:
            yield self._found("no-iss")

    def _of_registration(self) -> Iterator[Finding]:
        document = self._document or {}
        registers = document.get("registration_endpoint") is not None
        if document.get("client_id_metadata_document_supported") is not True:
            yield self._found("no-client-documents" if registers else "no-registration")
            return
        if not registers:
            yield self._found("documents-alone")
        if "none" not in strings(document.get("token_endpoint_auth_methods_supported")):
            yield self._found("no-public-clients")
