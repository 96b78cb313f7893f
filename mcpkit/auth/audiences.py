"""Whom tokens are for: audiences, compared as URLs of protected resources are (RFC 8707, section 2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .strict_json import several_of
from .texts import texts_in
from .urls import MetadataError, canonical
from .verifier import InvalidTokenError

MOST_AUDIENCES = 100
"""Audiences of one token."""


def audiences_of(claim: object) -> list[str] | None:
    """Return the audiences that a claim `aud` names; None where it is not as it must be (RFC 7519, 4.1.3)."""
    listed = several_of(claim)
    named = [each for each in listed if isinstance(each, str) and each]
    return named if named and len(named) == len(listed) <= MOST_AUDIENCES else None


def is_for(named: Collection[str], accepted: Collection[str]) -> bool:
    """Say whether a token that names some audiences is for one of those that are accepted.

    They are the same to the character, or URLs that differ in the case of scheme and host, in a default port, or in a
    slash at the end.
    """
    if not set(named).isdisjoint(accepted):
        return True
    urls = {_url(each) for each in accepted} - {None}
    return bool(urls) and any(_url(each) in urls for each in named)


class AudienceCheck:
    """Whether tokens are for this server.

    Args:
        audience: What they must be for, or several of which each will do; None for the URL of the endpoint.
        takes_any: Whether that is not looked at.

    Raises:
        TypeError: The audience is no text, and no list of texts.
        ValueError: There is none, one is empty, or both are given.
    """

    def __init__(self, audience: object, takes_any: bool) -> None:
        if takes_any and audience is not None:
            raise ValueError("audience= and accept_tokens_for_any_audience=True contradict each other")
        self._takes_any = takes_any
        self._accepted = None if audience is None else _checked(audience)

    def check(self, claims: Mapping[str, object], audience: str) -> None:
        """Refuse a token that is for somebody else.

        Args:
            claims: What it says.
            audience: The URL of the endpoint that is asked.

        Raises:
            InvalidTokenError: It is for somebody else, or does not say for whom.
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
    """Return a URL in its canonical form; None for what is none, or could be read in two ways."""
    if "#" in text or "@" in text:
        return None
    try:
        return canonical(text).rstrip("/")
    except MetadataError:
        return None
