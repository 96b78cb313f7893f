"""An in-memory client for the tests of a server; it speaks the real protocol of any revision.

async with connect(server) as client:
    result = await client.call_tool("get_forecast", {"latitude": 38.9, "longitude": -77.0})
    assert result.text.startswith("Sunny")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common.late_names import late_names

if TYPE_CHECKING:
    from .client import Answers, Client, ProgressCallback, connect
    from .overrides import override

__all__ = ["Answers", "Client", "ProgressCallback", "connect", "override"]

# pytest imports this folder for its plugin alone, which must cost nothing.
__getattr__ = late_names(
    globals(), {".client": "Answers Client ProgressCallback connect", ".overrides": "override"}
)
