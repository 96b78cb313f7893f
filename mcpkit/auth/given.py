"""What authors give as `Server(auth=...)`."""

from __future__ import annotations

from collections.abc import Sequence

from .verifier import TokenVerifier


def verifier_of(auth: TokenVerifier | Sequence[TokenVerifier]) -> TokenVerifier:
    """Return what verifies tokens as one.

    Raises:
        TypeError: It is none.
        ValueError: There is none in the list, or two are for one issuer.
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
    """Return what is written in the place of what verifies no tokens."""
    from .upstream.upstream import Upstream

    if isinstance(given, Upstream):
        return "OAuthProxy(Upstream.github(CLIENT_ID, CLIENT_SECRET))"
    return f"Jwt({given!r})" if str(given).startswith("https:") else 'Jwt("https://id.example.com")'
