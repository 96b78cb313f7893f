"""Exceptions that servers and clients raise, and those that handlers may raise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._utils.exceptions import (
    ArgumentsError,
    AuthorizationError,
    CallTimeoutError,
    ChallengeError,
    ClientResponseError,
    ElicitationError,
    InputRequired,
    InsufficientScopeError,
    LoginNeededError,
    MissingCapabilityError,
    OutcomeUnknownError,
    ProcessEndedError,
    PromptError,
    ProtocolError,
    ProviderUnavailableError,
    RegistrationError,
    ResourceError,
    ResourceNotFoundError,
    StatusError,
    TokenStorageError,
    ToolError,
    TransportError,
)

if TYPE_CHECKING:
    from .client.cache_and_pagination import IncompleteListError
    from .client.call_results import InvalidResultError
else:
    from ._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {".client.cache_and_pagination": "IncompleteListError", ".client.call_results": "InvalidResultError"},
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
