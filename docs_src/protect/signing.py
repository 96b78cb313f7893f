import time
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey

KEY = ECKey.generate_key("P-256", {"kid": "today"})
KEYS = {"keys": [KEY.as_dict(private=False)]}


def signed(**changes: Any) -> str:
    """Return a token of Ada for this server."""
    claims = {
        "iss": "https://id.example.com",
        "aud": "https://mcp.example.com/mcp",
        "sub": "ada",
        "client_id": "editor",
        "scope": "notes:read",
        "exp": int(time.time()) + 600,
    }
    header = {"alg": "ES256", "kid": "today", "typ": "at+jwt"}
    return jwt.encode(header, {**claims, **changes}, KEY)
