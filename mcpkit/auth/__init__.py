"""Authorization: what verifies the access tokens of a protected server, for `Server(auth=...)`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..state.audit import Audit, AuditEvent
    from ..state.meter import Meter
    from .authority.dev_auth import DevAuth
    from .authority.people import DevClient, DevUser
    from .introspection import Introspection
    from .jwt import Jwt
    from .presets import Auth0, Cognito, Entra, Keycloak, Okta
    from .proxy.oauth_proxy import OAuthProxy
    from .static_tokens import StaticTokens
    from .upstream.upstream import Upstream
    from .verifier import Grant, Ground, InvalidTokenError, Site, TokenVerifier, VerifierUnavailableError
else:
    _NAMES = {
        ".state.audit": "Audit AuditEvent",
        ".state.meter": "Meter",
        "authority.dev_auth": "DevAuth",
        "authority.people": "DevClient DevUser",
        "introspection": "Introspection",
        "jwt": "Jwt",
        "presets": "Auth0 Cognito Entra Keycloak Okta",
        "proxy.oauth_proxy": "OAuthProxy",
        "static_tokens": "StaticTokens",
        "upstream.upstream": "Upstream",
        "verifier": "Grant Ground InvalidTokenError Site TokenVerifier VerifierUnavailableError",
    }
    _PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}

    def __getattr__(name: str) -> object:
        """Import what is asked for, and nothing else."""
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f".{_PLACES[name]}", __name__), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "Audit",
    "AuditEvent",
    "Auth0",
    "Cognito",
    "DevAuth",
    "DevClient",
    "DevUser",
    "Entra",
    "Grant",
    "Ground",
    "Introspection",
    "InvalidTokenError",
    "Jwt",
    "Keycloak",
    "Meter",
    "OAuthProxy",
    "Okta",
    "Site",
    "StaticTokens",
    "TokenVerifier",
    "Upstream",
    "VerifierUnavailableError",
]
