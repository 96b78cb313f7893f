"""Pages that users see: plain HTML without scripts, of which no site can make a frame."""

from __future__ import annotations

import base64
from hashlib import sha256
from html import escape

from starlette.responses import HTMLResponse

from .errors import NOT_KEPT

_STYLE = """
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }
body { margin: 0 auto; max-width: 32rem; padding: 1.5rem 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; line-height: 1.25; }
form { border: 1px solid #8888; border-radius: .5rem; margin: .75rem 0; padding: .75rem; }
button, input { font: inherit; padding: .4rem .8rem; margin: .25rem 0; max-width: 100%; box-sizing: border-box; }
.note { border-left: .25rem solid #c60; padding-left: .75rem; }
"""
_ALLOWED = base64.b64encode(sha256(_STYLE.encode()).digest()).decode()
# No form-action: browsers hold it against the redirect that answers the form, and all that follow it.
HEADERS = {
    **NOT_KEPT,
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_ALLOWED}'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
"""Headers of each page. The referrer policy lets a form say where it comes from, and tells no other site."""


def page(title: str, body: str, status: int = 200) -> HTMLResponse:
    """Return a page.

    Args:
        title: Its title, as text.
        body: What stands below the title, as HTML.
        status: The HTTP status.
    """
    text = escape(title)
    return HTMLResponse(
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{text}</h1>{body}</main></body></html>",
        status,
        headers=HEADERS,
    )


def error_page(description: str, status: int = 400, *, back: tuple[str, str] | None = None) -> HTMLResponse:
    """Return a page that says why nothing can be done here.

    Args:
        description: Why, as text.
        status: The HTTP status.
        back: A URL to which the user may go on, and its host.
    """
    link = ""
    if back is not None:
        url, host = map(escape, back)
        link = f'<p>If you know it, go on to <a href="{url}" rel="noreferrer">{host}</a>, which asked for this.</p>'
    return page("You cannot log in this way", f"<p>{escape(description)}.</p>{link}", status)
