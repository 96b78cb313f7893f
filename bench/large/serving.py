"""Every app under the same uvicorn."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn


def serve(app: Any, descriptor: int) -> None:
    """Serve an app on a listening socket."""
    config = uvicorn.Config(
        app, http="httptools", loop="uvloop", log_level="warning", access_log=False, timeout_keep_alive=600
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor)])
