"""A server whose users log in at a provider without registration and documents, and a record of all that passes it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import httpx2
from starlette.requests import Request
from starlette.responses import Response

from mcpkit import Context, Server
from mcpkit.auth import AuditEvent, OAuthProxy, Upstream
from tests.helpers.browser import Profile
from tests.helpers.identity_provider import CONFIDENTIAL, IdentityProvider, confidential, providing
from tests.helpers.passing import Wire, holds
from tests.helpers.serving import in_thread_at
from tests.interop.authorization.guarded import Exchange, Guarded, Recorded, notebook

USERS = {"ada": {"email": "ada@example.com"}, "bob": {"email": "bob@example.com"}}
NAME = "directory"
SECRET = "a secret of the tests, long enough"


class Proxied(NamedTuple):
    """A server that runs, and what is around it.

    Attributes:
        guarded: The server, as servers with other verifiers are.
        server: The same.
        provider: Where its users log in.
        wire: What clients and browsers have asked it, and what it has answered.
        events: What it has told of.
    """

    guarded: Guarded
    server: Server
    provider: IdentityProvider
    wire: Wire
    events: list[AuditEvent]

    @property
    def url(self) -> str:
        """Its endpoint."""
        return self.guarded.url

    @property
    def secrets(self) -> set[str]:
        """What must stay between the server and the provider: tokens, the client's secret, PKCE verifiers."""
        exchanged = self.provider.seen("/token")
        kinds = ("access_token", "refresh_token", "id_token")
        tokens = {each.said[kind] for each in exchanged for kind in kinds if kind in each.said}
        verifiers = {each.params["code_verifier"] for each in exchanged if "code_verifier" in each.params}
        assert len(tokens) >= 3, "nobody has logged in"
        return {CONFIDENTIAL[1], *tokens, *verifiers}

    def check_legs(self, logins: int, issuer: str = "") -> None:
        """Check that each login has its own S256 challenge on each of its two legs, which its own verifier has met."""
        outer = [each.asked for each in self.wire.seen(f"{issuer}/authorize")]
        inner = [each.params for each in self.provider.seen("/auth")]
        assert {each["code_challenge_method"] for each in outer + inner} == {"S256"}
        assert {each["client_id"] for each in inner} == {CONFIDENTIAL[0]}
        assert not {each.get("state") for each in outer} & {each["state"] for each in inner}
        asked, forwarded = ({each["code_challenge"] for each in leg} for leg in (outer, inner))
        here = _met(each.asked for each in self.wire.seen(f"{issuer}/token", "POST"))
        there = _met(each.params for each in self.provider.seen("/token"))
        assert (len(here), len(there)) == (logins, logins)
        assert not asked & forwarded
        assert here <= asked, "ours asks once more, without the user, whether it is still known"
        assert there == forwarded

    def check_secrets(self, *pages: Profile, clients: str = "") -> None:
        """Check that nothing of the provider's has passed a client or a browser, both of which have been heard.

        Args:
            pages: The browsers.
            clients: What clients keep.
        """
        wire = self.wire.text()
        assert holds(wire, self.wire.seen("/token", "POST")[0].said["access_token"]), "nothing is heard"
        for page in pages:
            network = json.dumps(page.network()).encode()
            state = self.provider.seen("/auth")[0].params["state"]
            assert holds(network, state), "nothing of the browser is heard"
            wire += network
        for secret in self.secrets:
            assert not holds(wire + clients.encode(), secret)


@contextmanager
def proxied(
    *,
    upstream: Callable[[IdentityProvider], Upstream] | None = None,
    around: Callable[[Any], Any] = lambda app: app,
    issuer: str = "",
    provided: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[Proxied]:
    """Run such a server.

    Args:
        upstream: Makes what knows the provider.
        around: Makes an app of the app that is served.
        issuer: The path of its issuer.
        provided: More for the provider.
        options: More for `OAuthProxy`.
    """
    with ExitStack() as stack:
        exchanges: list[Exchange] = []
        notes: list[str] = []
        parts: list[Any] = []

        def make(origin: str) -> Any:
            provider = stack.enter_context(at_provider(f"{origin}{issuer}/callback", **(provided or {})))
            known = (upstream or directory)(provider)
            proxy = OAuthProxy(known, issuer=f"{origin}{issuer}" if issuer else None, **options)
            server, events = served(proxy, notes)
            wire = Wire(Recorded(server.asgi(public_url=f"{origin}/mcp"), exchanges))
            parts.extend((server, provider, wire, events))
            return around(wire)

        origin = stack.enter_context(in_thread_at(make))
        yield Proxied(Guarded(f"{origin}/mcp", exchanges, notes), *parts)


@contextmanager
def at_provider(callback: str, **options: Any) -> Iterator[IdentityProvider]:
    """Run the provider: it knows one client, put in by hand, with one redirect URI, and no other ever."""
    with providing(
        registers=False,
        reads_documents=False,
        clients=[confidential(callback)],
        users=USERS,
        identity_claims={"email": ["email"]},
        **options,
    ) as provider:
        yield provider


def directory(provider: IdentityProvider) -> Upstream:
    """Return the provider as the server knows it."""
    return Upstream.openid(provider.issuer, *CONFIDENTIAL, name=NAME, scopes=["openid", "email"])


def served(proxy: OAuthProxy, notes: list[str]) -> tuple[Server, list[AuditEvent]]:
    """Return the server of these tests, which also asks the provider for its users, and what it tells of."""
    server = notebook(proxy, notes, secret=SECRET)
    events: list[AuditEvent] = []
    server.on_audit(events.append)

    @server.tool(scopes="notes:read")
    async def profile(ctx: Context) -> dict[str, Any]:
        [provider] = {str(ctx.principal.issuer)}
        token = await ctx.token_for(NAME)
        async with httpx2.AsyncClient(base_url=provider) as http:
            answer = await http.get("/me", headers={"Authorization": f"Bearer {token}"})
        answer.raise_for_status()
        return {"said": answer.json(), "known": ctx.principal.claims.get("email")}

    @server.route("/send-away", methods=["POST"])
    async def send_away(request: Request) -> Response:
        await server.revoke(request.query_params["who"])
        return Response(status_code=204)

    return server, events


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636, section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def _met(forms: Iterable[dict[str, str]]) -> set[str]:
    return {challenge_of(form["code_verifier"]) for form in forms if "code_verifier" in form}
