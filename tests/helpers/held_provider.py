"""An OpenID provider that holds refreshes, so that a test can kill whoever asks for one in its midst."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response

from tests.helpers.openid_site import TOKEN, OpenIdSite
from tests.helpers.signed_tokens import Signer
from tests.helpers.upstream_site import CLIENT, Login, serving_site

CLIENT_ID, CLIENT_SECRET = CLIENT
USER = "ada"
SUBJECT = f"sub-of-{USER}"
EMAIL = "ada.lovelace@analytical.example"


class HeldProvider(OpenIdSite):
    """The provider. It says in its answers who it is, and whom nobody waits for it gives nothing.

    Attributes:
        redeemed: How often it was asked to redeem a code.
        refreshed: How often it was asked for a refresh.
        before: Cleared, refreshes are held before anything has been done.
        after: Cleared, refreshes are held when all has been done, and only the answer is missing.
        is_held: Set when a refresh is held.
        is_dropped: Set when whoever asked for one that is held has gone.
    """

    def __init__(self) -> None:
        super().__init__(Signer())
        self.users = {USER: {"email": EMAIL}}
        self.claims = lambda claims: {**claims, "email": EMAIL, "email_verified": True}
        self.metadata = {"authorization_response_iss_parameter_supported": True}
        self.redeemed = self.refreshed = 0
        self.before, self.after = threading.Event(), threading.Event()
        self.is_held, self.is_dropped = threading.Event(), threading.Event()
        self.release()

    @property
    def latest(self) -> Login:
        """The login that was begun last."""
        return self.logins[-1]

    def release(self) -> None:
        """Hold nothing any more."""
        self.before.set()
        self.after.set()
        self.is_held.clear()
        self.is_dropped.clear()

    def as_before(self) -> None:
        """Answer again as in the beginning."""
        self.seconds = 3600
        self.release()
        self.mend()

    def code_parameters(self) -> dict[str, str]:
        """Say who answers (RFC 9207)."""
        return {"iss": self.url}

    def secret(self, kind: str) -> str:
        """Return a new secret with letters that are written otherwise in URLs."""
        made = f"{super().secret(kind)}+/~"
        self.secrets.add(made)
        return made

    async def answer(self, request: Request) -> Response:
        """Answer one request."""
        body = await request.body() if request.url.path == TOKEN else b""
        self.redeemed += b"grant_type=authorization_code" in body
        if b"grant_type=refresh_token" not in body:
            return await super().answer(request)
        self.refreshed += 1
        if not await self._released(request, self.before):
            return Response()
        answer = await super().answer(request)
        await self._released(request, self.after)
        return answer

    async def _released(self, request: Request, gate: threading.Event) -> bool:
        """Wait until a refresh may go on, and say whether anybody waits for it still."""
        while not gate.is_set():
            self.is_held.set()
            if await request.is_disconnected():
                self.is_dropped.set()
                return False
            await anyio.sleep(0.01)
        return True


@contextmanager
def held_provider() -> Iterator[HeldProvider]:
    """Serve the provider until the end of the block."""
    site = HeldProvider()
    with serving_site(site):
        try:
            yield site
        finally:
            site.release()


def secrets_of(provider: HeldProvider, *more: str) -> dict[str, list[Any]]:
    """Return all that nobody but the provider and its client may see, by kind; its codes are in the browser's URL."""
    found: dict[str, list[Any]] = {"e-mail": [EMAIL], "client secret": [CLIENT_SECRET], "other": [*more]}
    found["verifier"] = [form["code_verifier"] for _, form in provider.forms if "code_verifier" in form]
    for secret in provider.secrets - {CLIENT_SECRET, *found["verifier"]}:
        kind = "ID token" if secret.startswith("eyJ") else secret.partition("_")[0]
        found.setdefault(kind, []).append(secret)
    del found["code"]
    return found
