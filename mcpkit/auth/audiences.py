"""Audiences of tokens, compared like URLs of protected resources (RFC 8707, section 2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .strict_json import several_of
from .texts import texts_in
from .urls import MetadataError, canonical
from .verifier import InvalidTokenError

MOST_AUDIENCES = 100
"""Audiences of one token."""


def audiences_of(claim: object) -> list[str] | None:
    """Return the audiences in an `aud` claim; None if the claim is malformed (RFC 7519, 4.1.3)."""
    listed = several_of(claim)
    named = [each for each in listed if isinstance(each, str) and each]
    return named if named and len(named) == len(listed) <= MOST_AUDIENCES else None


def is_for(named: Collection[str], accepted: Collection[str]) -> bool:
    """Return True if one of the audiences of a token is accepted.

    Audiences match if they are equal, or are URLs that differ only in the case of scheme and host, a default port, or a
    trailing slash.
    """
    if not set(named).isdisjoint(accepted):
        return True
    urls = {_url(each) for each in accepted} - {None}
    return bool(urls) and any(_url(each) in urls for each in named)


class AudienceCheck:
    """Check of the audience of tokens.

    Args:
        audience: Accepted audience, or a list of alternatives; None for the URL of the endpoint.
        takes_any: Accept any audience.

    Raises:
        TypeError: `audience` is not a string and not a list of strings.
        ValueError: `audience` is empty, or is given although `takes_any` is True.
    """

    def __init__(self, audience: object, takes_any: bool) -> None:
        if takes_any and audience is not None:
            raise ValueError(
                "audience= and accept_tokens_for_any_audience=True exclude each other. Pass one of them"
            )
        self._takes_any = takes_any
        self._accepted = None if audience is None else _checked(audience)

    def check(self, claims: Mapping[str, object], audience: str) -> None:
        """Check the audience of a token.

        Args:
            claims: Claims of the token.
            audience: URL of the endpoint.

        Raises:
            InvalidTokenError: The token has another audience, or none.
        """
        if self._takes_any:
            return
        named = audiences_of(claims.get("aud"))
        if named is None or not is_for(named, self._accepted or (audience,)):
            advice = (
                f"its `aud` must contain {' or '.join(self._accepted or (audience,))}. Check that public_url= is the"
                " URL that clients call. If the issuer ignores `resource`, set audience= to the value that it sends"
            )
            raise InvalidTokenError("the token has another audience (aud)", advice=advice)


def _checked(audience: object) -> tuple[str, ...]:
    texts = (
        (audience,) if isinstance(audience, str) else texts_in("audience", audience, or_else="a string, or ")
    )
    if not texts or "" in texts:
        raise ValueError("audience must not be empty. Pass None for the URL of the endpoint")
    return texts


def _url(text: str) -> str | None:
    """Return a URL in canonical form; None if it is not a URL or is ambiguous."""
    if "#" in text or "@" in text:
        return None
    try:
        return canonical(text).rstrip("/")
    except MetadataError:
        return None
