"""Check of the logins at a URL: responses to requests without a token, the whole check, and predictions for hosts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from ..._utils.option_checks import check_seconds
from ...auth.oauth_http_client import create_client
from ...auth.urls_and_discovery import MetadataError, canonical, is_loopback, origin, shortened
from ...protocol.revisions import LATEST_HANDSHAKE
from ..findings import SEVERITIES
from .authorization_metadata import (
    AuthProbe,
    IssuerCheck,
    PageProbe,
    ProbeResponse,
    ResourceCheck,
    check_offline_access,
    check_origin,
    check_sse,
)
from .finding_catalogue import CHATGPT, CLAUDE, EVERY_CLIENT, SDKS, Finding, make_finding
from .protocol_checks import initialize_params

if TYPE_CHECKING:
    import httpx2

_MAX_ISSUERS: Final = 5
_BAD_TOKEN: Final = "Bearer mcpkit-looks-whether-a-bad-token-is-refused"
_CREDENTIALS: Final = frozenset(
    {"access_token", "token", "api_key", "apikey", "key", "auth", "authorization"}
)
_HEADERS: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_INITIALIZE: Final = json.dumps(
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize_params(LATEST_HANDSHAKE)}
).encode()


async def check_authorization(
    url: str,
    *,
    page: str = "http://localhost:6274",
    timeout: float = 10.0,
    http_client: httpx2.AsyncClient | None = None,
) -> list[Finding]:
    """Check which clients cannot log in at a server, and why.

        for finding in await check_authorization("https://mcp.example.com/mcp"):
            print(finding)

    No login takes place, and no token is needed. The check sends requests without a token and with an invalid one, and
    requests the metadata of the server and its authorization server as clients do. It ends a session that the server
    opens.

    Args:
        url: The URL of the server, as users enter it in their clients.
        page: The origin of web pages that clients run in. The default is that of MCP Inspector.
        timeout: The time limit of each response in seconds.
        http_client: An HTTP client to use, with its settings for TLS and proxies. It is not closed.

    Returns:
        The findings, the worst first; empty if every client can log in.

    Raises:
        ValueError: The URL is not an HTTP URL.
        ImportError: The extra `mcpkit[auth]` is not installed.
    """
    check_seconds("timeout", timeout)
    try:
        canonical(url)
    except MetadataError as error:
        raise ValueError(str(error)) from None
    url = url.partition("#")[0]
    if urlsplit(url).username is not None:
        raise ValueError(
            "the URL to check must not contain a user name or password:"
            f" host {shortened(urlsplit(url).hostname or '')}"
        )
    client = create_client(url) if http_client is None else http_client
    try:
        findings = await _check(AuthProbe(client, url, timeout), url, page)
    finally:
        if client is not http_client:
            await client.aclose()
    return sorted(findings, key=lambda each: SEVERITIES.index(each.severity))


async def _check(probe: AuthProbe, url: str, page: str) -> list[Finding]:
    endpoint = await EndpointCheck.run(probe, url)
    if not endpoint.first.status:
        return list(endpoint.findings(has_metadata=False))
    resource = await ResourceCheck.run(probe, url, endpoint.challenge)
    # If the server responds that there is nothing at the URL, the document of another server at the origin is ignored.
    has_metadata = resource.found is not None and (endpoint.first.status != 404 or resource.is_about_server)
    findings = list(endpoint.findings(resource.scopes, has_metadata=has_metadata))
    if resource.found is None and endpoint.first.status != 401:
        return findings  # no login is required, or it is not an MCP server
    findings += resource.findings()
    pages = PageProbe(probe, page)
    await pages.check_server(url)
    if resource.found is not None:
        await pages.check_document("the server's metadata", resource.found.url)
        for name in resource.issuers[:_MAX_ISSUERS]:
            issuer = await IssuerCheck.run(probe, name, resource.found.url)
            findings += issuer.findings(resource.scopes)
            if issuer.is_found:
                await pages.check_document("the metadata of the authorization server", issuer.url)
            for what, where in issuer.endpoints():
                await pages.check_endpoint(f"the {what}", where)
    findings += pages.findings(url)
    findings += await check_sse(probe, url)
    findings += await check_origin(probe, url)
    return findings


class EndpointCheck:
    """Check of the responses to requests without a token and with an invalid one.

    Args:
        url: The URL of the server.
        first: The response to a request without a token.
        bad: The response to a request with an invalid token; None if there was none.

    Attributes:
        first: The response to a request without a token.
        challenge: Its challenge; None if there is none.
    """

    def __init__(self, url: str, first: ProbeResponse, bad: ProbeResponse | None) -> None:
        self.first = first
        self.challenge = first.token_challenge
        self._bad = bad
        self._url = url

    @classmethod
    async def run(cls, probe: AuthProbe, url: str) -> EndpointCheck:
        """Send requests without a token and with an invalid one. A session that the server opens is ended."""
        first, bad = await probe.request("POST", url, _HEADERS, _INITIALIZE), None
        if first.status:
            bad = await probe.request("POST", url, {**_HEADERS, "Authorization": _BAD_TOKEN}, _INITIALIZE)
        for each in (first, bad):
            if each is not None and (session := each.headers.get("mcp-session-id")) is not None:
                await probe.request("DELETE", url, {"Mcp-Session-Id": session})
        return cls(url, first, bad)

    def findings(self, scopes: Iterable[str] = (), *, has_metadata: bool) -> Iterator[Finding]:
        """Yield the findings about the responses.

        Args:
            scopes: The scopes in its metadata.
            has_metadata: Whether the server publishes protected resource metadata.
        """
        url, status, parts = self._url, self.first.status, urlsplit(self._url)
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            yield make_finding("not-https", url)
        if any(name.lower() in _CREDENTIALS for name, _ in parse_qsl(parts.query)):
            yield make_finding("credential-in-url", url.partition("?")[0])
        if parts.path.endswith("/") and parts.path != "/":
            yield make_finding("trailing-slash", url)
        if not status:
            yield make_finding("unreachable", url, problem=self.first.problem)
        elif status == 401:
            yield from self._challenge_findings(scopes)
        elif 300 <= status < 400:
            code = "redirect-kept" if status in {307, 308} else "redirect"
            target = shortened(self.first.headers.get("location", ""))
            yield make_finding(code, url, status=status, target=target)
        elif status < 300:
            yield make_finding("anonymous" if has_metadata else "open", url)
        else:
            is_protected = has_metadata or status == 403
            yield make_finding("first-is-no-401" if is_protected else "no-mcp", url, status=status)
        bad_status = 401 if self._bad is None else self._bad.status
        if bad_status < 300 and bad_status:
            if status == 401:
                yield make_finding("any-token", url)
            elif status < 300:
                yield make_finding("bad-token-passes", url)
        elif bad_status >= 400 and bad_status != 401 and status == 401:
            yield make_finding("bad-token-is-no-401", url, status=bad_status)

    def _challenge_findings(self, scopes: Iterable[str]) -> Iterator[Finding]:
        url = self._url
        if self.challenge is None:
            schemes = " and ".join(shortened(each.scheme) for each in self.first.challenges)
            yield make_finding("no-challenge", url, schemes=schemes or "none at all")
            return
        parameters = self.challenge.parameters
        metadata_url = parameters.get("resource_metadata", "")
        if not metadata_url:
            yield make_finding("challenge-without-metadata", url)
        if "scope" not in parameters and scopes:
            yield make_finding("challenge-without-scope", url)
        if "error" in parameters:
            yield make_finding("challenge-with-error", url, error=shortened(parameters["error"]))
        yield from check_offline_access(parameters.get("scope", "").split(), "The challenge", url)
        try:
            is_elsewhere = bool(metadata_url) and origin(metadata_url) != origin(url)
        except MetadataError:
            is_elsewhere = True
        if is_elsewhere:
            is_http = metadata_url.startswith("http:") and url.startswith("https:")
            code = "metadata-http" if is_http else "metadata-origin"
            yield make_finding(code, url, named=shortened(metadata_url))


# Predictions for known hosts


class Host(NamedTuple):
    """The way in which a host logs in.

    Attributes:
        name: The name of the host.
        group: Its name in the catalogue; empty if it has none.
        has_document: Whether it has a client ID metadata document, which it uses if the server lists `none`.
        setting: The setting in which its user enters a client id that was registered by hand.
    """

    name: str
    group: str
    has_document: bool
    setting: str


# Documents, registration and ids by hand:
# - Claude: https://support.claude.com/en/articles/11503834, which also has its callbacks; that `none` must be listed,
#   and that it goes no further without S256: https://github.com/anthropics/claude-ai-mcp/issues/786 (2026-08-06),
#   https://github.com/anthropics/claude-ai-mcp/issues/946 (2026-08-28).
# - Claude Code: https://github.com/anthropics/claude-code/issues/36861 (2026-03-20: documents since 2.1.81), without
#   S256: https://github.com/anthropics/claude-code/issues/35846 (2026-03-18).
# - ChatGPT: https://developers.openai.com/apps-sdk/build/auth (read 2026-11-23), without S256:
#   https://github.com/forcedotcom/mcp-hosted/issues/47 (2026-08-29).
# - VS Code: https://github.com/anomalyco/opencode/pull/47743 (2026-09-07: documents),
#   https://github.com/microsoft/vscode/issues/278512 (registration), https://github.com/microsoft/vscode-docs/pull/9798
#   (2026-05-18: oauth.clientId), and that it goes on without S256:
#   https://github.com/microsoft/vscode/issues/322126 (2026-06-19).
# - Cursor: https://developer.mittwald.de/docs/v2/mcp/getting-connected/cursor (read 2026-11-23).
# - MCP Inspector 2.12 and mcp-remote 0.15 were run, and are on the official TypeScript SDK, which goes on without S256.
HOSTS: Final = (
    Host("Claude", CLAUDE, has_document=True, setting="the connector's advanced settings"),
    Host("Claude Code", CLAUDE, has_document=True, setting="claude mcp add --client-id"),
    Host("ChatGPT", CHATGPT, has_document=True, setting="the connector's settings"),
    Host("VS Code", "", has_document=True, setting="oauth.clientId in mcp.json"),
    Host("Cursor", "", has_document=False, setting="auth in mcp.json"),
    Host("MCP Inspector", SDKS, has_document=False, setting="its settings"),
    Host("mcp-remote", SDKS, has_document=False, setting="--static-oauth-client-info"),
)


def hosts_at(findings: Iterable[Finding]) -> dict[str, str]:
    """Return a prediction for each known host, by its name.

    Args:
        findings: The findings about the server, from `check_authorization`.
    """
    by_code = {each.code: each for each in findings}
    return {host.name: _predict(host, by_code) for host in HOSTS}


def _predict(host: Host, findings: dict[str, Finding]) -> str:
    if "open" in findings:
        return "needs no login"
    errors = [
        code
        for code, each in findings.items()
        if each.severity == "error" and {EVERY_CLIENT, host.group} & {*each.clients}
    ]
    if errors:
        return f"does not log in ({', '.join(errors)})"
    accepts_documents = not findings.keys() & {"no-registration", "no-client-documents", "no-public-clients"}
    if host.has_document and accepts_documents:
        return "logs in with its client ID metadata document"
    if findings.keys() & {"no-registration", "documents-alone"}:
        return f"needs a client ID, which its user enters ({host.setting})"
    return "logs in after dynamic registration"
