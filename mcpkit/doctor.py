"""Checks of servers: authorization of a protected server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client.authorization.checking.check import check_authorization
    from .client.authorization.checking.finding import Finding
else:
    from ._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".client.authorization.checking.check": "check_authorization",
            ".client.authorization.checking.finding": "Finding",
        },
    )

__all__ = [
    "Finding",
    "check_authorization",
]
