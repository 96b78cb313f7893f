"""Runs the app with uvicorn: `server.run("http")`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
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

    Raises:
        ValueError: One of them is for several processes.
    """
    workers = options.get("workers") or 1
    if workers != 1 or options.get("reload"):
        flag = "--reload" if options.get("reload") else f"--workers {workers}"
        raise ValueError(
            'run("http") serves in this process alone, without reloading. '
            f"Write `app = server.asgi()` in a module, and start `uvicorn module:app {flag}`"
        )
    grace = app.settings.grace
    settings: dict[str, Any] = {"host": host, "port": port, "timeout_graceful_shutdown": grace}
    if find_spec("uvloop") is None:
        settings["http"] = "h11"  # httptools does not tell of a client that goes while a second request waits
    settings |= options
    with suppress(KeyboardInterrupt):  # uvicorn raises it once more when it has ended because of it
        uvicorn.Server(uvicorn.Config(app, **settings)).run()
