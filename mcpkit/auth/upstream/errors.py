"""Errors of requests to a provider."""

from __future__ import annotations


class UpstreamRefusedError(Exception):
    """The provider refused the request. A retry would have the same result.

    Args:
        error: Error code (RFC 6749, sections 4.1.2.1 and 5.2), such as `access_denied` or `invalid_grant`.
        description: The reason: bounded, visible ASCII without quotes and backslashes, and no part of the request.

    Attributes:
        error: The error code.
        description: The reason.
    """

    def __init__(self, error: str, description: str) -> None:
        super().__init__(f"{error}: {description}" if description else error)
        self.error = error
        self.description = description


class UpstreamUnavailableError(Exception):
    """The provider does not respond, sent an invalid response, or rejected this client. The login is not affected.

    The message is for the log. It contains the cause and what to change, and no secret.
    """
