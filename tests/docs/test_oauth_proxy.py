"""The servers of the pages on providers are saved as they stand there, and their users log in."""

import importlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers import provider_sites as sites
from tests.helpers.serving import ROOT

from .pages import Block, blocks_of

PAGES = ROOT / "docs" / "guides"
EXAMPLE = ROOT / "examples" / "repositories" / "server.py"
NAMES = {sites.GitHub: "github", sites.Google: "google", sites.Entra: "entra"}
RESULTS = {
    sites.GitHub: ("repositories", "ada/engine"),
    sites.Google: ("whoami", "Ada Lovelace (https://accounts.google.com#sub=110169484474386276334)"),
    sites.Entra: ("whoami", "Ada Lovelace (690222be-ff1a-4d56-abd1-7e4f7d38e474)"),
}


def block(kind: type[sites.Provider]) -> Block:
    page = (PAGES / f"oauth-proxy-{NAMES[kind]}.md").read_text()
    [found] = [each for each in blocks_of(page) if each.title == "server.py"]
    return found


@pytest.fixture
def site(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> sites.Provider:
    """A provider, which is asked by whatever makes a client of HTTP."""
    provider: sites.Provider = request.param(time.time)
    mounts = {origin: httpx2.ASGITransport(provider) for origin in provider.origins}
    real = httpx2.AsyncClient

    def client(**options: Any) -> httpx2.AsyncClient:
        return real(**{**options, "mounts": options.get("mounts") or mounts, "transport": sites.Nowhere()})

    monkeypatch.setattr(httpx2, "AsyncClient", client)
    return provider


@pytest.fixture
def module(site: sites.Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The server of its page, with the settings that the page exports."""
    name = f"server_of_{NAMES[type(site)]}"
    (tmp_path / f"{name}.py").write_text(block(type(site)).text)
    for setting, value in {
        **{f"{each.upper()}_CLIENT_ID": sites.CLIENT_ID for each in NAMES.values()},
        **{f"{each.upper()}_CLIENT_SECRET": sites.CLIENT_SECRET for each in NAMES.values()},
        "ENTRA_TENANT_ID": sites.TENANT,
        "USERS": "ada grace",
        "PUBLIC_URL": sites.MCP,
        "DATABASE": str(tmp_path / "shared.db"),
        "MCPKIT_SECRET": "made once, and options_of_client",
    }.items():
        monkeypatch.setenv(setting, value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield importlib.import_module(name)
    del sys.modules[name]


def test_github_page_has_the_example() -> None:
    assert block(sites.GitHub).text == EXAMPLE.read_text()


@pytest.mark.parametrize("site", sites.KINDS, indirect=True)
async def test_login_at_the_server_of_the_page(site: sites.Provider, module: Any) -> None:
    app = module.app() if isinstance(site, sites.GitHub) else module.app
    tool, text = RESULTS[type(site)]
    async with sites.before(site, app=app) as journey:
        tokens = await journey.tokens()
        assert text in await journey.text(tokens, tool)


@pytest.mark.parametrize("site", [sites.GitHub], indirect=True)
async def test_user_that_the_page_does_not_name_is_rejected(site, module, monkeypatch) -> None:
    monkeypatch.setattr(module, "USERS", ["grace"])
    async with sites.before(site, app=module.app()) as journey:
        answer = await journey.redirect_to_client()
    assert (answer["error"], answer["error_description"]) == (
        "access_denied",
        "the user has no access to this server",
    )
    assert site.revoked, "the token of a denied user should not be kept"
