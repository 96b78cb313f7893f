"""`securitySchemes` of tools, which hosts such as ChatGPT read: whether a tool needs a login, and its scopes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.revisions import knows

if TYPE_CHECKING:
    from ..protocol.types import Json
    from ..requests.call import Runtime
    from .component import Listed

_KEY = "securitySchemes"


def listed(component: Listed, revision: str, runtime: Runtime) -> Json:
    """Return the list entry of a component; for a tool of a protected server, with `securitySchemes` in its `_meta`.

    The form is that of OpenAI's Apps SDK. A value that the author set stays.

    Args:
        component: The listed component.
        revision: The revision of the list.
        runtime: The runtime of the server.
    """
    entry = component.listed(revision)
    if not runtime.is_protected or component.kind != "tool" or not knows(revision, "Tool", "_meta"):
        return entry
    return {**entry, "_meta": {_KEY: _schemes(component, runtime), **entry.get("_meta", {})}}


def _schemes(component: Listed, runtime: Runtime) -> list[Json]:
    scopes = runtime.scopes.reduced((*component.scopes, *component.optional_scopes))
    login: Json = {"type": "oauth2", "scopes": list(component.scopes or runtime.scopes.defaults)}
    if not component.is_anonymous:
        return [login]
    return [{"type": "noauth"}, {**login, "scopes": list(scopes)}] if scopes else [{"type": "noauth"}]
