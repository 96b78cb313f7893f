"""The pages of an `OAuthProxy`, served for a real browser, before a provider who lets everybody in."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from mcpkit import Scope, Server
from mcpkit.auth import OAuthProxy
from tests.helpers.oauth_flow import FakeUpstream, Login, client_documents, registration
from tests.helpers.serving import in_thread, in_thread_at
from tests.helpers.waiting import Clock

LOGO = Path(__file__).with_name("logo.svg")
DOCUMENT = "https://claude.ai/oauth/mcp-oauth-client-metadata"
SCOPES = {
    "notes:read": Scope("Read your notes", default=True),
    "notes:write": Scope("Write and delete notes", implies=["notes:read"]),
}
LONG = "Extraordinarily-long-" * 4 + "name"
"""A name that wants to be wider than any page."""


class ConsentPages:
    """Pages by their kinds.

    Args:
        origin: Where the server is.
        client: Where a page of a client is, that leads to what it is given by `to`.
    """

    def __init__(self, origin: str, client: str) -> None:
        self.origin = origin
        self.client = client

    def url(self, kind: str) -> str:
        """Return the URL of a page: `local`, `private`, `web`, `document`, `long`, or `error`."""
        if kind == "error":
            return f"{self.origin}/authorize?client_id=unknown"
        if kind == "document":
            return self.authorize_url(DOCUMENT, "https://claude.ai/api/mcp/auth_callback")
        name, callback = {
            "local": ("Cursor", "http://127.0.0.1:33418/callback"),
            "private": ("Cursor", "cursor://anysphere.cursor-retrieval/oauth/user-mcp/callback"),
            "web": ("Helpful Assistant", "https://assistant.example.com/callback"),
            "long": (LONG, f"https://{'a' * 60}.{'b' * 60}.example.com/callback"),
        }[kind]
        return self.authorize_url(self.registered(callback, name), callback)

    def registered(self, callback: str, name: str = "Cursor") -> str:
        """The id of a new client."""
        metadata = registration(client_name=name, redirect_uris=[callback])
        answer = httpx2.post(f"{self.origin}/register", json=metadata, trust_env=False)
        client_id: str = answer.json()["client_id"]
        return client_id

    def authorize_url(self, client_id: str, callback: str, **more: Any) -> str:
        """Return the URL that a client opens in the browser."""
        query = {"scope": "notes:read notes:write", "resource": f"{self.origin}/mcp", **more}
        return f"{self.origin}/authorize?{urlencode(Login(client_id, callback, **query).query)}"


@contextmanager
def consent_pages() -> Iterator[ConsentPages]:
    """Serve the pages of a server with a name and a picture."""
    callbacks = ["https://claude.ai/api/mcp/auth_callback"]
    document = {"client_id": DOCUMENT, "client_name": "Claude", "redirect_uris": callbacks}

    async def callback(request: Request) -> Response:
        return HTMLResponse("<p>Done</p>")

    async def start(request: Request) -> Response:
        return HTMLResponse(f"<a id=go href='{request.query_params['to']}'>log in</a>")

    async def authorize(request: Request) -> Response:
        return RedirectResponse(await upstream.visit(str(request.url)), 303)

    pages = {"/callback": callback, "/start": start, "/authorize": authorize}
    with (
        client_documents({DOCUMENT: document}),
        in_thread(Starlette(routes=[Route(*each) for each in pages.items()])) as elsewhere,
    ):
        upstream = FakeUpstream(Clock(), name="GitHub", issuer=elsewhere)
        upstream.title = "GitHub"
        proxy = OAuthProxy(upstream, title="Acme Notes", logo=LOGO)
        server = Server("notes", auth=proxy, scopes=SCOPES)
        with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
            yield ConsentPages(origin, elsewhere)


DRAWN = Path(__file__).parents[2] / "docs" / "assets"
PICTURES = {
    "consent-light": ("local", 620, False),
    "consent-dark": ("document", 620, True),
    "consent-phone": ("local", 360, False),
    "consent-error": ("error", 620, False),
}
"""Of each picture the page, how wide the window is, and whether it is dark."""
COLOURS = 48


def main() -> None:
    """Draw the pages for the documentation: `python -m tests.helpers.consent_pages`."""
    from PIL import Image

    from tests.helpers.browser import browsing

    with (
        browsing() as browser,
        consent_pages() as pages,
        browser.profile() as profile,
        TemporaryDirectory() as folder,
    ):
        for name, (kind, width, dark) in PICTURES.items():
            drawn = Path(folder) / f"{name}.png"
            profile.show(width, height=200, dark=dark)
            profile.open(pages.url(kind))
            profile.screenshot(drawn)
            with Image.open(drawn) as picture:
                few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
                few.save(DRAWN / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
