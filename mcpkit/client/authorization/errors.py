"""Why a client has no token for a server. No token, code or secret stands in any of them."""

from __future__ import annotations


class AuthorizationFailedError(Exception):
    """There is no token to be had; whoever asks the server gets an `AuthorizationError` that says the same.

    Args:
        message: What has happened, and what to do about it.
        may_pass: Whether it may be otherwise the next time: nobody has answered, say.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class TokenRefusedError(AuthorizationFailedError):
    """A token endpoint, or an authorization endpoint, has answered with an error (OAuth 2.1, 3.2.4 and 4.1.2.1).

    Args:
        message: What it says, in words.
        error: Its code, such as `invalid_grant`.
        may_pass: Whether it may be otherwise the next time.
    """

    def __init__(self, message: str, error: str, *, may_pass: bool = False) -> None:
        super().__init__(message, may_pass=may_pass)
        self.error = error
