"""Requests that a handler sends to the client, for `ctx.ask` and `Ask`, and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .requests.elicitation_and_sampling import (
        ElicitationResult,
        ElicitRequest,
        ListRootsRequest,
        Root,
        SamplingRequest,
        SamplingResult,
        UrlElicitRequest,
    )
else:
    from ._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".requests.elicitation_and_sampling": (
                "ElicitRequest ElicitationResult ListRootsRequest Root SamplingRequest SamplingResult UrlElicitRequest"
            ),
        },
    )

__all__ = [
    "ElicitRequest",
    "ElicitationResult",
    "ListRootsRequest",
    "Root",
    "SamplingRequest",
    "SamplingResult",
    "UrlElicitRequest",
]
