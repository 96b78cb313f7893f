"""Classes for protocol extensions, and for servers with custom methods, tools or results."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .components.custom_methods import CustomMethod
    from .content.blocks import ExtensionResult
    from .engine.error_hooks import ErrorEvent
    from .engine.extensions import BaseTool, SubscriptionTopic
    from .engine.registry import Inclusion
    from .protocol.types import ParamHeader
else:
    from ._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".components.custom_methods": "CustomMethod",
            ".engine.registry": "Inclusion",
            ".content.blocks": "ExtensionResult",
            ".engine.extensions": "BaseTool SubscriptionTopic",
            ".engine.error_hooks": "ErrorEvent",
            ".protocol.types": "ParamHeader",
        },
    )

__all__ = [
    "BaseTool",
    "CustomMethod",
    "ErrorEvent",
    "ExtensionResult",
    "Inclusion",
    "ParamHeader",
    "SubscriptionTopic",
]
