"""Runs the app with uvicorn: `server.run("http")`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    from .app import HttpApp


def run_app(app: HttpApp, host: str, port: int, options: Mapping[str, Any]) -> None:
    """Serve until a signal comes.

    Args:
        app: The app.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        options: More options for `uvicorn.Config`; they go before what is set here.
    """
    grace = app.settings.grace
    limit = None if grace is None else max(1, int(grace))
    settings: dict[str, Any] = {"host": host, "port": port, "timeout_graceful_shutdown": limit, **options}
    uvicorn.Server(uvicorn.Config(app, **settings)).run()
