"""What each known host does at a server with the proxy, and without it: the table of the page is this."""

from __future__ import annotations

import re

import pytest

from mcpkit import Server, check_authorization
from mcpkit.auth import OAuthProxy
from mcpkit.client.authorization.checking.hosts import hosts_at
from tests.auth.proxy.providers.journeys import KINDS, MCP, SCOPES, before, found_directly, upstream_of
from tests.helpers.clock import Clock
from tests.helpers.provider_sites import Provider
from tests.helpers.recorded_providers import ENTRA, GITHUB, GOOGLE
from tests.helpers.serving import ROOT
from tests.helpers.signed_tokens import NOW

pytestmark = pytest.mark.anyio

PAGES = ROOT / "docs" / "how-to"


async def hosts_by_proxy(kind: type[Provider]) -> dict[str, str]:
    site, clock = kind(lambda: NOW), Clock(NOW)
    server = Server("notes", auth=OAuthProxy(upstream_of(site, clock), clock=clock), scopes=SCOPES)
    async with before(site, server) as journey:
        findings = await check_authorization(MCP, http_client=journey.net)
    assert findings == []
    assert site.asked == [], "nobody asks the provider before somebody logs in"
    return hosts_at(findings)


@pytest.mark.slow
async def test_the_page_says_what_each_host_does() -> None:
    directly = [hosts_at(await found_directly(kind)) for kind in KINDS]
    by_proxy = [await hosts_by_proxy(kind) for kind in KINDS]
    assert by_proxy[0] == by_proxy[1] == by_proxy[2]
    rows = [
        f"| {name} | {' | '.join(_short(each[name]) for each in directly)} | {by_proxy[0][name]} |"
        for name in by_proxy[0]
    ]
    page = (PAGES / "oauth-proxy.md").read_text()
    assert "\n".join(rows) in page, "\n".join(rows)


async def test_the_pages_of_providers_show_what_the_command_says() -> None:
    shown = "\n".join(f"{name}: {outcome}" for name, outcome in (await hosts_by_proxy(KINDS[0])).items())
    for name in ("github", "google", "entra"):
        assert f"every client can log in\n{shown}\n" in (PAGES / f"oauth-proxy-{name}.md").read_text(), shown


def test_the_page_says_where_the_metadata_was_read() -> None:
    page = re.sub(r"\s+", " ", (PAGES / "oauth-proxy.md").read_text())
    for name, each in {"github": GITHUB, "google": GOOGLE, "entra": ENTRA}.items():
        for fact in (each.copy, each.recorded):
            assert fact in page, f"{name}: {fact}"
        assert each.recorded in (PAGES / f"oauth-proxy-{name}.md").read_text()


def _short(outcome: str) -> str:
    """The table leaves out where a user enters an ID."""
    return re.sub(r", which its user enters .*", "", outcome)
