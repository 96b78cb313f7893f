"""Authorization of a server: token verifiers and authorization servers for `Server(auth=...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..identity.audit_and_revocation import AuditEvent, AuditLog, AuditMeter
    from .authorization_server.dev_auth import DevAuth, DevClient, DevUser
    from .introspection import Introspection
    from .jwt import Jwt
    from .presets import Auth0, Cognito, Entra, Keycloak, Okta
    from .proxy.oauth_proxy import OAuthProxy
    from .upstream.identity_providers import UpstreamProvider
    from .verifier import (
        AccessToken,
        InvalidTokenError,
        ProtectedResource,
        StaticTokens,
        TokenVerifier,
        VerifierContext,
        VerifierUnavailableError,
    )
else:
    from .._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            "..identity.audit_and_revocation": "AuditLog AuditEvent AuditMeter",
            ".authorization_server.dev_auth": "DevAuth DevClient DevUser",
            ".introspection": "Introspection",
            ".jwt": "Jwt",
            ".presets": "Auth0 Cognito Entra Keycloak Okta",
            ".proxy.oauth_proxy": "OAuthProxy",
            ".upstream.identity_providers": "UpstreamProvider",
            ".verifier": (
                "AccessToken InvalidTokenError ProtectedResource StaticTokens TokenVerifier VerifierContext "
                "VerifierUnavailableError"
            ),
        },
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


__all__ = [
    "AccessToken", "AuditEvent", "AuditLog", "AuditMeter", "Auth0", "Cognito", "DevAuth", "DevClient", "DevUser",
    "Entra", "Introspection", "InvalidTokenError", "Jwt", "Keycloak", "OAuthProxy", "Okta", "ProtectedResource",
    "StaticTokens", "TokenVerifier", "UpstreamProvider", "VerifierContext", "VerifierUnavailableError",
]  # fmt: skip
