"""Pages for users: plain HTML without scripts, which other sites cannot frame."""

from __future__ import annotations

import base64
from hashlib import sha256
from html import escape

from starlette.responses import HTMLResponse

from .errors import NOT_KEPT
from .look import Look

_STYLE = """
:root {
  color-scheme: light dark;
  font: 1rem/1.5 system-ui, sans-serif;
  --page: #f3f4f6; --card: #fff; --text: #1b1f24; --soft: #515963; --line: #c9ced6; --edge: #6b7480;
  --strong: #0b57b0; --on-strong: #fff; --note: #fff5e0; --note-edge: #a85d00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #101317; --card: #1a1f26; --text: #e9ecf0; --soft: #a9b2bd; --line: #3a424d; --edge: #8a94a1;
    --strong: #8ab8ff; --on-strong: #0b1a30; --note: #33270f; --note-edge: #f0a63c;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 34rem; padding: 1.5rem 1rem 2rem; overflow-wrap: anywhere;
  background: var(--page); color: var(--text);
}
header { display: flex; align-items: center; gap: .75rem; margin: 0 .25rem 1rem; font-weight: 600; }
header img { height: 3rem; max-width: 8rem; object-fit: contain; }
header p { margin: 0; }
main { background: var(--card); border: 1px solid var(--line); border-radius: .75rem; padding: 1.5rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1rem; text-wrap: balance; }
p, ul { margin: 0 0 1rem; }
main > :last-child { margin-bottom: 0; }
ul { padding-left: 1.25rem; }
li { margin: .25rem 0; }
small { color: var(--soft); font-size: .875rem; }
dl { margin: 0 0 1rem; border: 1px solid var(--line); border-radius: .5rem; }
dl div { padding: .75rem 1rem; }
dl div + div { border-top: 1px solid var(--line); }
dt { color: var(--soft); font-size: .875rem; }
dd { margin: 0; }
dd strong { display: block; font-size: 1.125rem; }
dd .host { font-family: ui-monospace, monospace; }
.note {
  background: var(--note); border-left: .25rem solid var(--note-edge); border-radius: .25rem; padding: .75rem 1rem;
}
form { display: flex; flex-wrap: wrap; gap: .75rem; margin: 0; }
form + form { border-top: 1px solid var(--line); margin-top: .75rem; padding-top: .75rem; }
form label, form p { flex: 1 1 100%; margin: 0; }
form .check { display: flex; gap: .625rem; align-items: center; }
button, input { font: inherit; color: inherit; border: 1px solid var(--edge); border-radius: .5rem; }
button {
  flex: 1 1 12rem; min-height: 2.75rem; padding: .5rem 1rem; font-weight: 600; cursor: pointer;
  background: var(--card); color: var(--text); overflow-wrap: anywhere;
}
button.go { background: var(--strong); border-color: var(--strong); color: var(--on-strong); }
button:hover { text-decoration: underline; }
input[type=password] { display: block; width: 100%; padding: .5rem .75rem; background: var(--card); }
input[type=checkbox] { width: 1.5rem; height: 1.5rem; margin: 0; flex: none; accent-color: var(--strong); }
a { color: var(--strong); }
:focus-visible { outline: .1875rem solid var(--strong); outline-offset: .1875rem; }
"""
_PLAIN = Look()
_ALLOWED = base64.b64encode(sha256(_STYLE.encode()).digest()).decode()


def page(title: str, body: str, status: int = 200, *, look: Look = _PLAIN) -> HTMLResponse:
    """Return a page.

    Args:
        title: Title, as text.
        body: Body below the title, as HTML.
        status: The HTTP status.
        look: Title and logo of the server.
    """
    text = escape(title)
    icon = picture = header = ""
    if look.logo is not None:
        url = escape(look.logo)
        icon, picture = f'<link rel="icon" href="{url}">', f'<img src="{url}" alt="">'
    if look.title:
        header = f"<header>{picture}<p>{escape(look.title)}</p></header>"
    return HTMLResponse(
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{text}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{icon}<style>{_STYLE}</style></head>"
        f"<body>{header}<main><h1>{text}</h1>{body}</main></body></html>",
        status,
        headers=_headers(has_picture=bool(picture)),
    )


def error_page(
    description: str, status: int = 400, *, back: tuple[str, str] | None = None, look: Look = _PLAIN
) -> HTMLResponse:
    """Return a page with an error.

    Args:
        description: The reason, as text.
        status: The HTTP status.
        back: URL of a link to continue, and its host.
        look: Title and logo of the server.
    """
    link = ""
    if back is not None:
        url, host = map(escape, back)
        link = f'<p>If you trust it, return to <a href="{url}" rel="noreferrer">{host}</a>, which began this login.</p>'
    said = description[:1].upper() + description[1:]
    return page("The login failed", f"<p>{escape(said)}.</p>{link}", status, look=look)


def quoted(name: str) -> str:
    """Return an untrusted name for a sentence: in quotes, with isolated text direction."""
    return f"\u201c\u2068{name}\u2069\u201d"


def _headers(*, has_picture: bool) -> dict[str, str]:
    """Return the headers of a page.

    The referrer policy makes forms send their origin, and hides the URL from other sites.
    """
    pictures = " img-src data:;" if has_picture else ""
    return {
        **NOT_KEPT,
        # No form-action: browsers hold it against the redirect that answers the form, and all that follow it.
        "Content-Security-Policy": (
            f"default-src 'none'; style-src 'sha256-{_ALLOWED}';{pictures} base-uri 'none'; frame-ancestors 'none'"
        ),
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    }
