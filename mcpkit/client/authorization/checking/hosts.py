"""Predicts how known hosts log in at a server, or why they cannot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from .catalogue import CHATGPT, CLAUDE, EVERYBODY, SDKS
from .finding import Finding


class Host(NamedTuple):
    """The way in which a host logs in.

    Attributes:
        name: The name of the host.
        group: Its name in the catalogue; empty if it has none.
        has_document: Whether it has a client ID metadata document, which it uses if the server lists `none`.
        asks: The place where its user enters a client id that was registered by hand.
    """

    name: str
    group: str
    has_document: bool
    asks: str


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
    Host("Claude", CLAUDE, has_document=True, asks="the connector's advanced settings"),
    Host("Claude Code", CLAUDE, has_document=True, asks="claude mcp add --client-id"),
    Host("ChatGPT", CHATGPT, has_document=True, asks="the connector's settings"),
    Host("VS Code", "", has_document=True, asks="oauth.clientId in mcp.json"),
    Host("Cursor", "", has_document=False, asks="auth in mcp.json"),
    Host("MCP Inspector", SDKS, has_document=False, asks="its settings"),
    Host("mcp-remote", SDKS, has_document=False, asks="--static-oauth-client-info"),
)


def hosts_at(findings: Iterable[Finding]) -> dict[str, str]:
    """Return a prediction for each known host, by its name.

    Args:
        findings: The findings about the server, from `check_authorization`.
    """
    codes = {each.code: each for each in findings}
    return {host.name: _outcome(host, codes) for host in HOSTS}


def _outcome(host: Host, found: dict[str, Finding]) -> str:
    if "open" in found:
        return "needs no login"
    stops = [
        code
        for code, each in found.items()
        if each.severity == "error" and {EVERYBODY, host.group} & {*each.clients}
    ]
    if stops:
        return f"does not log in ({', '.join(stops)})"
    takes_documents = not found.keys() & {"no-registration", "no-client-documents", "no-public-clients"}
    if host.has_document and takes_documents:
        return "logs in with its client ID metadata document"
    if found.keys() & {"no-registration", "documents-alone"}:
        return f"needs a client ID, which its user enters ({host.asks})"
    return "logs in after dynamic registration"
