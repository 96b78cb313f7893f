"""HTTP apps whose limits and timeouts differ from those of their server."""

from __future__ import annotations

from typing import Any

from mcpkit import Limits, Server, Timeouts
from mcpkit.transports.http.app import HttpApp
from mcpkit.transports.http.options import Settings

AT_ONCE = Timeouts(shutdown=0)
"""Running calls are cancelled as soon as the app is asked to stop."""


def app_of(
    server: Server, *, limits: Limits | None = None, timeouts: Timeouts | None = None, **options: Any
) -> HttpApp:
    """Return what `server.asgi(**options)` does, with other limits and timeouts."""
    runtime = server.engine.runtime
    settings = Settings(limits or runtime.limits, timeouts or runtime.timeouts, **options)
    return HttpApp(server.engine, settings)
