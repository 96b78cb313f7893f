"""Classes for protocol extensions, and for servers with custom methods, tools or results."""

from __future__ import annotations

from .components.custom_methods import CustomMethod
from .content.blocks import ExtensionResult
from .engine.base_tool_and_subscription_topic import BaseTool, SubscriptionTopic
from .engine.error_hooks import ErrorEvent
from .engine.included_providers_and_extensions import Inclusion
from .protocol.objects import ParamHeader

__all__ = [
    "BaseTool",
    "CustomMethod",
    "ErrorEvent",
    "ExtensionResult",
    "Inclusion",
    "ParamHeader",
    "SubscriptionTopic",
]
