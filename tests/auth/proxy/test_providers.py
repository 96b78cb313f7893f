"""Logins through an OAuthProxy with GitHub, Google and Entra, as their documentation describes them."""

from typing import Any, NamedTuple

import pytest

from mcpkit import Context, Server
from mcpkit.auth import OAuthProxy
from mcpkit.cli.doctor.check_authorization import HOSTS, hosts_at
from tests.helpers import provider_sites as sites
from tests.helpers.serving import ROOT
from tests.helpers.signed_tokens import NOW
from tests.helpers.waiting import Clock


@pytest.mark.parametrize(("kind", "errors", "notes"), [
    (sites.GitHub, {"no-registration"}, set()),
    (sites.Google, {"no-registration"}, set()),
    (sites.Entra, {"no-registration", "no-pkce"}, {"no-iss"}),
])  # fmt: skip
async def test_provider_without_proxy_findings(kind, errors, notes):
    found = await sites.found_directly(kind)
    assert {each.code for each in found if each.severity == "error"} == errors
    assert {each.code for each in found if each.severity == "note"} == notes
    assert {each.code for each in found if each.severity == "warning"} == {
        "cors",
        "march-foreign-issuer",
        "unknown-scopes",
    }
    stopped = {host.name for host in HOSTS if "no-pkce" in errors and host.group in {"Claude", "ChatGPT"}}
    for name, outcome in hosts_at(found).items():
        if name in stopped:
            assert outcome == "does not log in (no-pkce)"
        else:
            assert outcome.startswith("needs a client ID, which its user enters")


class Expected(NamedTuple):
    name: str
    subject: str
    userinfo: str


EXPECTED = {
    sites.GitHub: Expected("github", "583231", "https://api.github.com/user"),
    sites.Google: Expected(
        "google", "110169484474386276334", "https://openidconnect.googleapis.com/v1/userinfo"
    ),
    sites.Entra: Expected(
        "entra", "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ", "https://graph.microsoft.com/oidc/userinfo"
    ),
}


def server_of(site: sites.Provider, clock: Clock) -> Server:
    net = sites.here(dict.fromkeys(site.origins, site))
    auth = OAuthProxy(sites.upstream_of(site, clock), clock=clock, client_documents=False)
    server = Server("notes", auth=auth, scopes=sites.SCOPES)

    @server.tool
    def whoami(ctx: Context) -> str:
        return str(ctx.principal.id)

    @server.tool
    async def named(ctx: Context) -> str:
        token = await ctx.upstream_token(EXPECTED[type(site)].name)
        response = await net.get(EXPECTED[type(site)].userinfo, headers={"Authorization": f"Bearer {token}"})
        return f"{response.status_code} {response.json().get('name')}"

    return server


@pytest.fixture(params=sites.KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def site(kind: Any, clock: Clock) -> Any:
    return kind(clock)


def expect_no_secrets(journey: sites.Journey) -> None:
    assert journey.site.secrets
    seen = "\n".join(journey.seen)
    assert not [secret for secret in (*journey.site.secrets, sites.CLIENT_SECRET) if secret in seen]


async def test_provider_login_and_tool_call(kind, site, clock):
    async with sites.before(site, server_of(site, clock)) as journey:
        tokens = await journey.tokens()
        assert await journey.text(tokens, "whoami") == f"{site.url}#sub={EXPECTED[kind].subject}"
        assert await journey.text(tokens, "named") == "200 Ada Lovelace"
        expect_no_secrets(journey)
    [form] = [form for _, url, form in site.requests if url == site.recorded["authorization_endpoint"]]
    assert form["code_challenge"] != journey.login.query["code_challenge"]
    assert form["state"] != journey.login.query["state"]


async def test_provider_tokens_are_refreshed(site, clock):
    if isinstance(site, sites.GitHub):
        site.seconds, site.refreshes = 28_800, True
    async with sites.before(site, server_of(site, clock)) as journey:
        tokens = await journey.tokens()
        for times in (1, 2):
            clock.now += 30_000
            response = await journey.refreshed(tokens)
            assert response.status_code == 200, response.text
            tokens = response.json()
            assert [form.get("grant_type") for _, _, form in site.requests].count("refresh_token") == times
            assert await journey.text(tokens, "named") == "200 Ada Lovelace"
        expect_no_secrets(journey)


@pytest.mark.parametrize("by", ["the client", "the server"])
async def test_revocation_reaches_provider(kind, site, clock, by):
    server = server_of(site, clock)
    async with sites.before(site, server) as journey:
        tokens = await journey.tokens()
        if by == "the client":
            form = {"token": tokens["refresh_token"], "client_id": journey.login.client_id}
            assert (await journey.post("/revoke", form)).status_code == 200
        else:
            await server.revoke(f"{site.url}#sub={EXPECTED[kind].subject}")
        assert (await journey.called(tokens, "whoami")).status_code == 401
        assert (await journey.refreshed(tokens)).status_code == 400
    assert bool(site.revoked) == (kind is not sites.Entra)
    assert set(site.revoked) <= site.secrets


async def test_provider_wrong_secret_is_logged(kind, site, clock, caplog, monkeypatch):
    codes = {
        sites.GitHub: "incorrect_client_credentials",
        sites.Google: "invalid_client",
        sites.Entra: "AADSTS7000215",
    }
    code = codes[kind]
    monkeypatch.setattr(site, "is_client", lambda request, form: False)
    async with sites.before(site, server_of(site, clock)) as journey:
        assert (await journey.redirect_to_client())["error"] == "temporarily_unavailable"
    assert code not in str(journey.seen)
    assert "rejected this client" in caplog.text
    assert code in caplog.text
    assert sites.CLIENT_SECRET not in caplog.text
    page = (
        (ROOT / "docs" / "guides" / f"oauth-proxy-{EXPECTED[kind].name}.md")
        .read_text()
        .replace(f"`{code}`", code)
    )
    assert f'the client: `temporarily_unavailable`, the log: "rejected this client", {code}' in page
