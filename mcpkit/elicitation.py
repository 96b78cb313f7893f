"""Requests that a handler sends to the client, for `ctx.ask` and `Ask`, and their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .requests.elicitation import ElicitationResult, ElicitRequest, ListRootsRequest, UrlElicitRequest
    from .requests.roots import Root
    from .requests.sampling import SamplingRequest, SamplingResult
else:
    from ._utils.late_names import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".requests.elicitation": "ElicitRequest ElicitationResult ListRootsRequest UrlElicitRequest",
            ".requests.roots": "Root",
            ".requests.sampling": "SamplingRequest SamplingResult",
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
