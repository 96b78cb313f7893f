"""The option `Server(auth=...)`."""

from __future__ import annotations

from collections.abc import Sequence

from .verifier import TokenVerifier


def verifier_of(auth: TokenVerifier | Sequence[TokenVerifier]) -> TokenVerifier:
    """Return one verifier for the option `auth`.

    Raises:
        TypeError: A value is not a TokenVerifier.
        ValueError: The list is empty, or two verifiers have the same issuer.
    """
    untyped: object = auth  # a text is a sequence as well
    several = list(auth) if isinstance(auth, Sequence) else [auth]
    given: list[object] = [auth] if isinstance(untyped, str) else [*several]
    for each in given:
        if not isinstance(each, TokenVerifier):
            raise TypeError(
                f"auth must be a TokenVerifier or a list of them, got {each!r}. Pass for example {_meant(each)} of"
                " mcpkit.auth"
            )
    if len(several) == 1:
        return several[0]
    from .issuers import Issuers

    return Issuers(several)


def _meant(given: object) -> str:
    """Return example code for a value that is not a verifier."""
    from .upstream.upstream_provider import UpstreamProvider

    if isinstance(given, UpstreamProvider):
        return "OAuthProxy(UpstreamProvider.github(CLIENT_ID, CLIENT_SECRET))"
    return f"Jwt({given!r})" if str(given).startswith("https:") else 'Jwt("https://id.example.com")'
