"""Whom tokens are for: audiences, compared as URLs of protected resources are (RFC 8707, section 2)."""

from __future__ import annotations

from collections.abc import Collection

from .discovery import MetadataError, canonical

MOST_AUDIENCES = 100
"""Audiences of one token."""


def audiences_of(claim: object) -> list[str] | None:
    """Return the audiences that a claim `aud` names; None where it is not as it must be (RFC 7519, 4.1.3)."""
    listed = claim if isinstance(claim, list) else [claim]
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


def checked_audiences(audience: object) -> tuple[str, ...] | None:
    """Return the audiences that an author accepts; None for the URL of the endpoint.

    Raises:
        TypeError: They are no text, and no list of texts.
        ValueError: There are none, or one is empty.
    """
    if audience is None:
        return None
    several = (audience,) if isinstance(audience, str) else audience
    if not isinstance(several, list | tuple | set | frozenset) or not all(
        isinstance(each, str) for each in several
    ):
        raise TypeError(f"audience must be a text, or a list of texts, got {audience!r}")
    if not several or "" in several:
        raise ValueError("audience must not be empty; None stands for the URL of the endpoint")
    return tuple(several)


def _url(text: str) -> str | None:
    """Return a URL in its canonical form; None for what is none, or could be read in two ways."""
    if "#" in text or "@" in text:
        return None
    try:
        return canonical(text).rstrip("/")
    except MetadataError:
        return None
