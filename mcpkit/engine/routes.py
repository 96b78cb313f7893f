"""Routes that authors add to the HTTP app."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple


class CustomRoute(NamedTuple):
    """A route of the author in the HTTP app; see `Server.route`."""

    path: str
    function: Callable[..., Any]
    methods: Collection[str] | None
    name: str | None
    is_outside_mount: bool = False
    scopes: tuple[str, ...] | None = None
