"""Checks of servers: authorization of a protected server."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cli.doctor.check_authorization import check_authorization
    from .cli.doctor.finding_catalogue import Finding
else:
    from ._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".cli.doctor.check_authorization": "check_authorization",
            ".cli.doctor.finding_catalogue": "Finding",
        },
    )

__all__ = ["Finding", "check_authorization"]
