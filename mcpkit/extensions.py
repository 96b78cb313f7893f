"""Classes for protocol extensions, and for servers with custom methods, tools or results."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .components.custom_methods import CustomMethod
    from .content.values import ExtensionResult
    from .engine.base_tool import BaseTool
    from .engine.error_hooks import ErrorEvent
    from .engine.registry import Inclusion
    from .engine.topic import SubscriptionTopic
    from .protocol.mirrored import ParamHeader
else:
    from ._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".components.custom_methods": "CustomMethod",
            ".engine.registry": "Inclusion",
            ".content.values": "ExtensionResult",
            ".engine.base_tool": "BaseTool",
            ".engine.error_hooks": "ErrorEvent",
            ".engine.topic": "SubscriptionTopic",
            ".protocol.mirrored": "ParamHeader",
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
