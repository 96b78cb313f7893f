"""What a provider answers in place of tokens."""

from __future__ import annotations


class UpstreamRefusedError(Exception):
    """The provider says no; asking again with the same changes nothing.

    Args:
        error: The code (RFC 6749, sections 4.1.2.1 and 5.2), such as `access_denied` or `invalid_grant`.
        description: Why, in visible ASCII without quotes and backslashes, bounded, and nothing of what was sent.

    Attributes:
        error: The code.
        description: Why.
    """

    def __init__(self, error: str, description: str) -> None:
        super().__init__(f"{error}: {description}" if description else error)
        self.error = error
        self.description = description


class UpstreamUnavailableError(Exception):
    """The provider does not answer, not as it must, or does not know this client: nothing is known, nothing lost.

    The message is for the log: it says what has happened and what an operator may have to change, without a secret.
    """
