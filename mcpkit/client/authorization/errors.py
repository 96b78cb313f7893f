"""Errors while obtaining a token. Their messages contain no token, code or secret."""

from __future__ import annotations


class AuthorizationFailedError(Exception):
    """No token could be obtained. The caller of the request gets an `AuthorizationError` with the same message.

    Args:
        message: The reason, and what to do about it.
        may_pass: Whether another attempt may succeed, for example because the server did not respond.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class TokenRefusedError(AuthorizationFailedError):
    """A token or authorization endpoint responded with an error (OAuth 2.1, 3.2.4 and 4.1.2.1).

    Args:
        message: The error in words.
        error: The error code, such as `invalid_grant`.
        may_pass: Whether another attempt may succeed.
    """

    def __init__(self, message: str, error: str, *, may_pass: bool = False) -> None:
        super().__init__(message, may_pass=may_pass)
        self.error = error
