"""Users of three providers log in, by what each provider publishes of itself and answers."""

from __future__ import annotations

import pytest

from mcpkit import Context, Server
from mcpkit.auth import OAuthProxy
from tests.auth.proxy.providers.journeys import KINDS, SCOPES, Journey, before, upstream_of
from tests.helpers.clock import Clock
from tests.helpers.provider_sites import CLIENT_SECRET, Entra, GitHub, Google, Provider, here
from tests.helpers.serving import ROOT
from tests.helpers.signed_tokens import NOW

pytestmark = pytest.mark.anyio

USERINFO = {
    GitHub: "https://api.github.com/user",
    Google: "https://openidconnect.googleapis.com/v1/userinfo",
    Entra: "https://graph.microsoft.com/oidc/userinfo",
}
NAMES = {GitHub: "github", Google: "google", Entra: "entra"}
SUBJECTS = {
    GitHub: "583231",
    Google: "110169484474386276334",
    Entra: "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ",
}


def server_of(site: Provider, clock: Clock) -> Server:
    """Return a server whose users log in with a provider."""
    net = here(dict.fromkeys(site.origins, site))
    server = Server(
        "notes",
        auth=OAuthProxy(upstream_of(site, clock), clock=clock, client_documents=False),
        scopes=SCOPES,
    )

    @server.tool
    def whoami(ctx: Context) -> str:
        return str(ctx.principal.id)

    @server.tool
    async def named(ctx: Context) -> str:
        token = await ctx.token_for(NAMES[type(site)])
        answer = await net.get(USERINFO[type(site)], headers={"Authorization": f"Bearer {token}"})
        return f"{answer.status_code} {answer.json().get('name')}"

    return server


def renewed(site: Provider) -> int:
    return sum(form.get("grant_type") == "refresh_token" for _, _, form in site.asked)


def nothing_leaked(journey: Journey) -> None:
    """The client has been told nothing that the provider has given out."""
    assert journey.site.given
    told = "\n".join(journey.seen)
    assert not [secret for secret in journey.site.given if secret in told]
    assert CLIENT_SECRET not in told


@pytest.mark.parametrize("kind", KINDS)
async def test_a_user_logs_in_and_a_tool_asks_the_provider_in_their_name(kind: type[Provider]) -> None:
    clock = Clock(NOW)
    site = kind(clock)
    async with before(site, server_of(site, clock)) as journey:
        tokens = await journey.tokens()
        assert await journey.text(tokens, "whoami") == f"{site.metadata['issuer']}#sub={SUBJECTS[kind]}"
        assert await journey.text(tokens, "named") == "200 Ada Lovelace"
        nothing_leaked(journey)
    [asked] = [form for _, url, form in site.asked if url == site.metadata["authorization_endpoint"]]
    assert asked["code_challenge"] != journey.login.query["code_challenge"]
    assert asked["state"] != journey.login.query["state"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_login_outlives_the_tokens_of_the_provider(kind: type[Provider]) -> None:
    clock = Clock(NOW)
    site = kind(clock)
    if isinstance(site, GitHub):
        site.expires = True
    async with before(site, server_of(site, clock)) as journey:
        tokens = await journey.tokens()
        for times in (1, 2):
            clock.now += 30_000
            answer = await journey.refreshed(tokens)
            assert answer.status_code == 200, answer.text
            tokens = answer.json()
            assert renewed(site) == times
            assert await journey.text(tokens, "named") == "200 Ada Lovelace"
        nothing_leaked(journey)


async def test_tokens_of_github_that_never_expire_are_not_refreshed_but_looked_at() -> None:
    clock = Clock(NOW)
    site = GitHub(clock)
    async with before(site, server_of(site, clock)) as journey:
        tokens = await journey.tokens()
        before_that = len(site.asked)
        clock.now += 3_600
        tokens = (await journey.refreshed(tokens)).json()
        assert [url for _, url, _ in site.asked[before_that:]] == [USERINFO[GitHub]]
        assert await journey.text(tokens, "named") == "200 Ada Lovelace"


@pytest.mark.parametrize("kind", KINDS)
async def test_who_is_sent_away_at_the_provider_is_out_here(kind: type[Provider]) -> None:
    clock = Clock(NOW)
    site = kind(clock)
    async with before(site, server_of(site, clock)) as journey:
        tokens = await journey.tokens()
        site.is_gone = True
        clock.now += 30_000
        answer = await journey.refreshed(tokens)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
        nothing_leaked(journey)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by", ["the client", "the server"])
async def test_ending_a_login_ends_it_at_the_provider_where_that_can(kind: type[Provider], by: str) -> None:
    clock = Clock(NOW)
    site = kind(clock)
    server = server_of(site, clock)
    async with before(site, server) as journey:
        tokens = await journey.tokens()
        if by == "the client":
            form = {"token": tokens["refresh_token"], "client_id": journey.login.client_id}
            assert (await journey.posted("/revoke", form)).status_code == 200
        else:
            await server.revoke(f"{site.metadata['issuer']}#sub={SUBJECTS[kind]}")
        assert (await journey.called(tokens, "whoami")).status_code == 401
        assert (await journey.refreshed(tokens)).status_code == 400
    assert bool(site.revoked) == (kind is not Entra)
    assert set(site.revoked) <= site.given


async def test_google_is_told_with_the_last_login_of_a_user_as_that_ends_all_of_them() -> None:
    clock = Clock(NOW)
    site = Google(clock)
    async with before(site, server_of(site, clock)) as journey:
        other = Journey(journey.net, site)
        first, second = await journey.tokens(), await other.tokens()
        form = {"token": first["refresh_token"], "client_id": journey.login.client_id}
        assert (await journey.posted("/revoke", form)).status_code == 200
        assert site.revoked == []
        clock.now += 30_000
        renewed = await other.refreshed(second)
        assert renewed.status_code == 200, renewed.text
        form = {"token": renewed.json()["refresh_token"], "client_id": other.login.client_id}
        assert (await other.posted("/revoke", form)).status_code == 200
    assert site.revoked


@pytest.mark.parametrize("kind", KINDS)
async def test_a_user_who_says_no_at_the_provider_is_sent_back_to_the_client(kind: type[Provider]) -> None:
    clock = Clock(NOW)
    site = kind(clock)
    site.denies = True
    async with before(site, server_of(site, clock)) as journey:
        await journey.registered()
        answer = await journey.come_back()
    assert answer["error"] == "access_denied"
    assert answer["state"] == journey.login.query["state"]
    assert "code" not in answer


@pytest.mark.parametrize(
    ("kind", "said"),
    [(GitHub, "incorrect_client_credentials"), (Google, "invalid_client"), (Entra, "AADSTS7000215")],
)
async def test_a_wrong_secret_is_said_in_the_log_and_to_nobody_else(
    kind: type[Provider], said: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(NOW)
    site = kind(clock)
    monkeypatch.setattr("provider_sites.CLIENT_SECRET", "another one")
    async with before(site, server_of(site, clock)) as journey:
        await journey.registered()
        answer = await journey.come_back()
    assert answer["error"] == "temporarily_unavailable"
    assert said not in str(journey.seen)
    assert "refuses this client" in caplog.text
    assert said in caplog.text
    assert CLIENT_SECRET not in caplog.text
    page = (ROOT / "docs" / "how-to" / f"oauth-proxy-{NAMES[kind]}.md").read_text()
    assert f'the client: `temporarily_unavailable`, the log: "refuses this client", {said}' in page.replace(
        "`" + said + "`", said
    )


async def test_an_answer_of_another_issuer_is_not_taken() -> None:
    clock = Clock(NOW)
    site = GitHub(clock)
    async with before(site, server_of(site, clock)) as journey:
        await journey.registered()
        onward = await journey.consented()
        back = await journey.net.get(onward.headers["location"])
        forged = back.headers["location"].replace("github.com%2Flogin", "attacker.example%2Flogin")
        assert forged != back.headers["location"]
        ended = await journey.net.get(forged)
        assert "error=server_error" in ended.headers["location"]
    assert not [url for _, url, _ in site.asked if url == site.metadata["token_endpoint"]]
