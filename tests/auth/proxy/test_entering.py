"""Where an `OAuthProxy` may be served, what its operator is told, and what is loaded where it is not."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Sqlite
from mcpkit.auth import OAuthProxy
from mcpkit.tasks.record import read, written
from tests.helpers.authority_site import said, site
from tests.helpers.clock import Clock
from tests.helpers.proxied import ORIGIN, Proxied
from tests.helpers.stand_in import StandIn

pytestmark = pytest.mark.anyio


def proxy(**options: Any) -> OAuthProxy:
    return OAuthProxy(StandIn(Clock()), **options)


@pytest.mark.parametrize(
    ("origin", "issuer", "problem"),
    [
        ("http://mcp.example.com", None, "public_url is not encrypted"),
        (ORIGIN, "http://mcp.example.com", "the issuer of OAuthProxy is not encrypted"),
        (ORIGIN, "https://id.example.com", "at the origin of public_url"),
        (ORIGIN, f"{ORIGIN}/login?tenant=1", "at the origin of public_url"),
        (ORIGIN, f"{ORIGIN}/login#x", "fragment"),
        (ORIGIN, "mcp.example.com", "no URL"),
    ],
)
def test_where_it_cannot_be_served(origin: str, issuer: str | None, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        proxy(issuer=issuer).enter(site(origin=origin))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"allow": {"ada"}}, "allow= is a function"),
        ({"token_lifetime": 0}, "above 0"),
        ({"token_lifetime": "1h"}, "a number of seconds above 0, got '1h'"),
        ({"title": ""}, "title"),
        ({"picture": b"no picture"}, "picture"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        proxy(**options)


def test_a_secret_in_the_place_of_a_provider_is_not_shown() -> None:
    wrong: Any = "the client's secret"
    with pytest.raises(TypeError, match="takes an Upstream") as caught:
        OAuthProxy(wrong)
    assert wrong not in str(caught.value)


async def test_one_of_it_serves_one_site() -> None:
    one = proxy()
    with pytest.raises(RuntimeError, match="enter"):
        one.routes()
    one.enter(site(origin=ORIGIN))
    one.enter(site(origin=ORIGIN))
    for other in (site(origin="https://other.example.com"), site(origin=ORIGIN)._replace(name="tasks")):
        with pytest.raises(ValueError, match=f"serves notes at {ORIGIN}/mcp already"):
            one.enter(other)
    moved = site(origin=ORIGIN)._replace(public_url=f"{ORIGIN}/notes/mcp")
    with pytest.raises(ValueError, match=f"would serve notes at {ORIGIN}/notes/mcp"):
        one.enter(moved)


async def test_an_issuer_with_a_path_has_all_below_it() -> None:
    here = Proxied(issuer=f"{ORIGIN}/login")
    flow = here.flow(path="/login")
    answer = said(await flow.back())
    assert answer["iss"] == f"{ORIGIN}/login"
    assert here.upstream.queries[0]["redirect_uri"] == f"{ORIGIN}/login/callback"
    assert (await flow.redeemed(answer["code"])).status_code == 200


def test_the_operator_is_told_what_to_register_and_what_does_not_last(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = proxy()
    here.enter(site(origin=ORIGIN))
    here.enter(site(origin=ORIGIN))
    assert here.notices() == (
        f"notes: users log in with Example, where the callback {ORIGIN}/callback has to be registered",
    )
    assert caplog.text.count("logins end with this process") == 1
    caplog.clear()
    with closing(Sqlite(tmp_path / "notes.db")) as shared:
        proxy().enter(site(origin=ORIGIN, shared=shared))
    assert "logins end" not in caplog.text


@pytest.mark.parametrize(
    ("is_public", "allow", "warned"),
    [(True, None, True), (True, lambda who: True, False), (False, None, False)],
)
def test_a_provider_that_anybody_may_join_wants_a_word(
    is_public: bool, allow: Any, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    upstream = StandIn(Clock())
    upstream.is_public = is_public
    OAuthProxy(upstream, allow=allow).enter(site(origin=ORIGIN))
    assert ("anybody may have an account at Example" in caplog.text) is warned


async def test_a_worker_that_serves_nothing_has_the_tokens_of_whose_task_it_runs() -> None:
    here = Proxied()
    tokens = await here.flow().tokens()
    principal = read(written((await here.granted(tokens)).principal))
    worker = OAuthProxy(here.upstream, clock=here.clock)
    assert await worker.token_for(principal, "example", here.ground) in here.upstream.live


@pytest.mark.slow
def test_where_it_is_not_served_it_loads_no_more_than_it_takes_to_miss_a_library() -> None:
    program = """
import sys
from mcpkit import Server
from mcpkit.auth import OAuthProxy, Upstream
Server("notes", auth=OAuthProxy(Upstream.github("id", "secret of the app")))
print(*sorted({name.split(".")[0] for name in sys.modules} & {"starlette", "joserfc", "cryptography"}))
"""
    assert subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60).split() == []
