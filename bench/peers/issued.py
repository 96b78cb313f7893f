"""The issuer of the access tokens that protected servers are measured with."""

from __future__ import annotations

import os

ORIGIN = "http://127.0.0.1:8000"
AUDIENCE = f"{ORIGIN}/mcp"
ISSUER = "https://id.example.com"
KEY = "BENCH_PUBLIC_KEY"


def public_key() -> str:
    """Return the key that tokens are verified with, as PEM; it is new in each run."""
    return os.environ[KEY]
