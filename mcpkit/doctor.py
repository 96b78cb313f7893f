"""Checks of servers: authorization of a protected server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cli.auth_check.auth_findings import Finding
    from .cli.auth_check.check_authorization import check_authorization
else:
    from ._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".cli.auth_check.check_authorization": "check_authorization",
            ".cli.auth_check.auth_findings": "Finding",
        },
    )

__all__ = [
    "Finding",
    "check_authorization",
]
