"""Settings by which an operator accepts what is refused otherwise for safety, and the warnings of them at the start."""

from __future__ import annotations

import logging
from typing import Final

logger = logging.getLogger("mcpkit")

_CONSEQUENCES: Final = {
    "accept_tokens_for_any_audience": (
        "tokens that %s issues for other APIs are taken as well, and those APIs can use the tokens that are sent here"
    ),
    "accept_plain_http": (
        "requests to %s may be unencrypted, so that everything between can read secrets and replace keys and answers; "
        "use it in a private network alone"
    ),
    "accept_id_tokens": (
        "ID tokens of %s are taken, which say who has logged in, and were issued to a client for itself"
    ),
    "accept_unannounced_pkce": (
        "users log in at %s although its metadata does not say that it knows PKCE; if it does not, others can redeem a "
        "code that they steal"
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
