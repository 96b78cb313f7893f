"""Rate limits and CORS of the endpoints of a public authorization server."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.routing import Route

from .cross_origin import ForAnyOrigin
from .limits import PAGES, REGISTRATIONS, TOKENS, Limited, Limits

_PAGES = frozenset({"authorize", "callback"})
"""Last path segments of pages for browsers. All other endpoints are for programs."""
_RATES = {
    "authorize": PAGES,
    "callback": PAGES,
    "register": REGISTRATIONS,
    "token": TOKENS,
    "revoke": TOKENS,
}


def at_the_edge(routes: Iterable[Route], limits: Limits) -> list[Route]:
    """Return endpoints with rate limits and CORS.

    Args:
        routes: The endpoints.
        limits: The rate limits.
    """
    return [_guarded(route, limits) for route in routes]


def _guarded(route: Route, limits: Limits) -> Route:
    what = route.path.rpartition("/")[2]
    is_page, methods = what in _PAGES, set(route.methods or ())
    app = route.app
    if what in _RATES:
        app = Limited(app, limits, what, _RATES[what], is_page=is_page)
    if not is_page:
        app = ForAnyOrigin(app, methods)
        methods.add("OPTIONS")
    return Route(route.path, app, methods=sorted(methods))
