"""Settings by which an operator accepts what is refused otherwise for safety, and the warnings of them at the start."""

from __future__ import annotations

import logging
from typing import Final

logger = logging.getLogger(__name__)

_CONSEQUENCES: Final = {
    "accept_tokens_for_any_audience": (
        "the server accepts tokens that %s issued for other APIs, and those APIs can use the tokens sent here"
    ),
    "accept_plain_http": (
        "requests to %s may be unencrypted, and others on the network can read secrets and replace keys and responses. "
        "Use it only in a private network"
    ),
    "accept_id_tokens": (
        "the server accepts ID tokens of %s, which are issued to clients and not for access to APIs"
    ),
    "accept_unannounced_pkce": (
        "the client logs in at %s even if its metadata does not announce PKCE. Without PKCE, an attacker can redeem a "
        "stolen authorization code"
    ),
}
"""What each setting leads to; the issuer, or whatever stands for it, goes into the text."""


def accepted(**settings: bool) -> tuple[str, ...]:
    """Return the names of the settings that are true."""
    return tuple(name for name, value in settings.items() if value)


def warn_of(where: str, issuer: str, names: tuple[str, ...]) -> None:
    """Log a warning for each setting.

    Args:
        where: The server or the class that has the settings.
        issuer: The issuer, or words for it.
        names: What `accepted` returns.
    """
    for name in names:
        logger.warning("%s: %s=True: %s", where, name, _CONSEQUENCES[name] % issuer)
