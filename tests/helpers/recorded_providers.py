"""What providers publish of themselves, and where and when the copies were recorded that this was read from.

Endpoints and capabilities alone, written down here; what clients do not look at is left out. Nothing is made better:
what a provider does not say is not said here either.
"""

from __future__ import annotations

from typing import Any, NamedTuple

TENANT = "f7e1c2a4-0b3d-4c5e-8f60-112233445566"
_LOGIN = "https://login.microsoftonline.com"


class Recorded(NamedTuple):
    """Metadata of a provider.

    Attributes:
        published_at: Where the provider publishes it.
        copy: Where the copy stands that was read.
        recorded: The day of that.
        metadata: What it says.
    """

    published_at: str
    copy: str
    recorded: str
    metadata: dict[str, Any]


GITHUB = Recorded(
    "https://github.com/.well-known/oauth-authorization-server/login/oauth",
    "github.com/api-evangelist/github-copilot, well-known/github-copilot-github-oauth-authorization-server.json at"
    " aa6983573e11cb852114554f238110e4743f49f8",
    "2026-09-19",
    {
        "issuer": "https://github.com/login/oauth",
        "authorization_endpoint": "https://github.com/login/oauth/authorize",
        "token_endpoint": "https://github.com/login/oauth/access_token",
        "device_authorization_endpoint": "https://github.com/login/device/code",
        "response_types_supported": ["code"],
        "grant_types_supported": [
            "authorization_code",
            "refresh_token",
            "urn:ietf:params:oauth:grant-type:device_code",
        ],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "scopes_supported": ["offline_access"],
    },
)

GOOGLE = Recorded(
    "https://accounts.google.com/.well-known/openid-configuration",
    "github.com/api-evangelist/google-cloud-platform, well-known/google-cloud-platform-openid-configuration.json at"
    " 05803a539ad4a42e5052eb2024c1900fab357277",
    "2026-06-20",
    {
        "issuer": "https://accounts.google.com",
        "authorization_endpoint": "https://accounts.google.com/o/oauth2/v2/auth",
        "token_endpoint": "https://oauth2.googleapis.com/token",
        "userinfo_endpoint": "https://openidconnect.googleapis.com/v1/userinfo",
        "revocation_endpoint": "https://oauth2.googleapis.com/revoke",
        "jwks_uri": "https://www.googleapis.com/oauth2/v3/certs",
        "response_types_supported": [
            "code",
            "token",
            "id_token",
            "code token",
            "code id_token",
            "token id_token",
            "code token id_token",
            "none",
        ],
        "response_modes_supported": ["query", "fragment", "form_post"],
        "grant_types_supported": [
            "authorization_code",
            "refresh_token",
            "urn:ietf:params:oauth:grant-type:device_code",
            "urn:ietf:params:oauth:grant-type:jwt-bearer",
        ],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "scopes_supported": ["openid", "email", "profile"],
        "token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"],
        "code_challenge_methods_supported": ["plain", "S256"],
        "authorization_response_iss_parameter_supported": True,
    },
)

# The copy is that of any tenant, `organizations`, with {tenantid} in its issuer; here it is one tenant. That there is
# still no code_challenge_methods_supported: https://github.com/anthropics/claude-ai-mcp/issues/786 (2026-08-06).
ENTRA = Recorded(
    f"{_LOGIN}/{TENANT}/v2.0/.well-known/openid-configuration",
    "github.com/panva/wellknown, issuers/entra-organizations/entra-organizations.mjs at"
    " e88dd5e2d1c5cf40ee6358147c7b1117c4049a50",
    "2024-10-01",
    {
        "issuer": f"{_LOGIN}/{TENANT}/v2.0",
        "authorization_endpoint": f"{_LOGIN}/{TENANT}/oauth2/v2.0/authorize",
        "token_endpoint": f"{_LOGIN}/{TENANT}/oauth2/v2.0/token",
        "userinfo_endpoint": "https://graph.microsoft.com/oidc/userinfo",
        "jwks_uri": f"{_LOGIN}/{TENANT}/discovery/v2.0/keys",
        "end_session_endpoint": f"{_LOGIN}/{TENANT}/oauth2/v2.0/logout",
        "response_types_supported": ["code", "id_token", "code id_token", "id_token token"],
        "response_modes_supported": ["query", "fragment", "form_post"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "scopes_supported": ["openid", "profile", "email", "offline_access"],
        "token_endpoint_auth_methods_supported": [
            "client_secret_post",
            "private_key_jwt",
            "client_secret_basic",
        ],
        "request_uri_parameter_supported": False,
    },
)
