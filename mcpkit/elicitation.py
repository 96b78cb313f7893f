"""Requests that a handler sends to the client, for `ctx.ask` and `Ask`, and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .calls.asking.questions import ElicitationResult, ElicitRequest, ListRootsRequest, UrlElicitRequest
    from .calls.asking.roots import Root
    from .calls.asking.sampling import SamplingRequest, SamplingResult
else:
    from .common.late_names import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".calls.asking.questions": "ElicitRequest ElicitationResult ListRootsRequest UrlElicitRequest",
            ".calls.asking.roots": "Root",
            ".calls.asking.sampling": "SamplingRequest SamplingResult",
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
