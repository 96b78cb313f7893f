"""Exceptions that servers and clients raise, and those that handlers may raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._utils.errors import (
        ArgumentsError,
        CallTimeoutError,
        ChallengeError,
        ClientResponseError,
        ElicitationError,
        InputRequired,
        InsufficientScopeError,
        LoginNeededError,
        MissingCapabilityError,
        ProcessEndedError,
        PromptError,
        ProtocolError,
        ProviderUnavailableError,
        RegistrationError,
        ResourceError,
        ResourceNotFoundError,
        ToolError,
    )
    from .client.authorization.storage import TokenStorageError
    from .client.link.errors import (
        AuthorizationError,
        IncompleteListError,
        InvalidResultError,
        OutcomeUnknownError,
        StatusError,
        TransportError,
    )
else:
    from ._utils.late_names import late_names

    __getattr__ = late_names(
        globals(),
        {
            "._utils.errors": (
                "ClientResponseError ArgumentsError CallTimeoutError ChallengeError ElicitationError InputRequired "
                "InsufficientScopeError LoginNeededError MissingCapabilityError ProcessEndedError PromptError "
                "ProtocolError ProviderUnavailableError RegistrationError ResourceError ResourceNotFoundError "
                "ToolError "
            ),
            ".client.authorization.storage": "TokenStorageError",
            ".client.link.errors": (
                "AuthorizationError IncompleteListError InvalidResultError OutcomeUnknownError StatusError "
                "TransportError "
            ),
        },
    )

__all__ = [
    "ArgumentsError",
    "AuthorizationError",
    "CallTimeoutError",
    "ChallengeError",
    "ClientResponseError",
    "ElicitationError",
    "IncompleteListError",
    "InputRequired",
    "InsufficientScopeError",
    "InvalidResultError",
    "LoginNeededError",
    "MissingCapabilityError",
    "OutcomeUnknownError",
    "ProcessEndedError",
    "PromptError",
    "ProtocolError",
    "ProviderUnavailableError",
    "RegistrationError",
    "ResourceError",
    "ResourceNotFoundError",
    "StatusError",
    "TokenStorageError",
    "ToolError",
    "TransportError",
]
