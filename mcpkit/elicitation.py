"""Requests that a handler sends to the client, for `ctx.ask` and `Ask`, and their results."""

from __future__ import annotations

from .requests.elicitation_and_sampling import (
    ElicitationResult,
    ElicitRequest,
    ListRootsRequest,
    Root,
    SamplingRequest,
    SamplingResult,
    UrlElicitRequest,
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
