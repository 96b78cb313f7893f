"""Tests of servers: a client in the same process that uses the real protocol, in any version.

async with connect(server) as client:
    result = await client.call_tool("get_forecast", {"latitude": 38.9, "longitude": -77.0})
    assert result.text.startswith("Sunny")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._utils.package import late_names

if TYPE_CHECKING:
    from .client_and_overrides import ProgressCallback, ServerRequestHandler, TestClient, connect, override

__all__ = ["ProgressCallback", "ServerRequestHandler", "TestClient", "connect", "override"]

# pytest imports this folder for its plugin alone, which must cost nothing.
__getattr__ = late_names(globals(), {".client_and_overrides": " ".join(__all__)})
