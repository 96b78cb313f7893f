"""What may be said of every provider."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    import httpx2


class UpstreamOptions(TypedDict, total=False):
    """What may be said of a provider beside who it is, and who its client is; see `Upstream`."""

    name: str
    title: str
    scopes: Collection[str]
    parameters: Mapping[str, str]
    claims: Collection[str]
    authentication: Literal["basic", "post"] | None
    timeout: float
    leeway: float
    http_client: httpx2.AsyncClient | None
    clock: Callable[[], float]
