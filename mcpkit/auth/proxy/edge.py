"""What stands between the endpoints of an authorization server and the internet: limits, and who may read answers."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.routing import Route

from .cross_origin import ForAnyOrigin
from .limits import PAGES, REGISTRATIONS, TOKENS, Limited, Limits

_PAGES = frozenset({"authorize", "callback"})
"""What browsers show, by the end of the path; all else is for programs."""
_RATES = {
    "authorize": PAGES,
    "callback": PAGES,
    "register": REGISTRATIONS,
    "token": TOKENS,
    "revoke": TOKENS,
}


def at_the_edge(routes: Iterable[Route], limits: Limits) -> list[Route]:
    """Return endpoints as the internet may see them.

    Args:
        routes: The endpoints.
        limits: Count who comes how often.
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
