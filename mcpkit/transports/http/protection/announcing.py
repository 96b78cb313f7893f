"""Log messages at the start of a protected server: its endpoints, and everything without protection."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ....auth.urls import is_loopback

if TYPE_CHECKING:
    from ....engine.engine import CustomRoute
    from ....engine.included_providers_and_extensions import CompositeCatalog

logger = logging.getLogger(__name__)

_MOST_NAMED = 20


def announce(
    urls: Sequence[str],
    issuers: Sequence[str],
    notices: Iterable[str],
    catalog: CompositeCatalog,
    routes: Iterable[CustomRoute],
    mounts: Iterable[str],
) -> None:
    """Log the protected endpoints with their issuers, and everything without protection.

    Under uvicorn, the messages go to its logger, among its own at the start. Warnings go to the logger `mcpkit`.

    Args:
        urls: The endpoints, the MCP endpoint first.
        issuers: Issuers of accepted tokens, if known.
        notices: Notices of the verifier.
        catalog: The components.
        routes: Custom routes.
        mounts: Paths of mounted apps.
    """
    told = logging.getLogger("uvicorn.error") if logging.getLogger("uvicorn").handlers else logger
    whose = f" issued by {_listed(issuers)}" if issuers else ""
    told.info("Access tokens%s are accepted at %s", whose, _listed(urls))
    for notice in notices:
        told.info("%s", notice)
    parts = urlsplit(urls[0])
    if parts.scheme != "https" and not is_loopback(parts.hostname):
        logger.warning(
            "public_url=%r does not use TLS, so access tokens can be read on the network. Serve it over "
            "https",
            urls[0],
        )
    open_routes = [f"route {route.path}" for route in routes if route.scopes is None]
    open_routes += [f"app mounted at {path}" for path in mounts]
    if open_routes:
        told.info("Open without an access token, as they have no scopes=: %s", _listed(open_routes))
    anonymous = [
        f"{each.kind} {each.key}"
        for part in catalog.parts
        for each in part
        if each.is_anonymous and each.is_enabled
    ]
    if anonymous:
        logger.warning(
            "Open without an access token, as they have Access(allow_anonymous=True): %s. Hosts that only log in when "
            "`initialize` is rejected (401) will not log in here. Serve such hosts at an endpoint without "
            "these components",
            _listed(anonymous),
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
