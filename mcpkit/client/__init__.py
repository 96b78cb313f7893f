"""Clients, their authorization, handlers and transports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .auth.login_callback import LocalCallbackServer
    from .auth.oauth_grants import ClientCredentials, EnterpriseManaged, OAuth, WorkloadIdentity
    from .auth.token_storage import FileTokens, KeyringTokens, MemoryTokens, TokenStorage
    from .call_results import CallResult
    from .client import Client
    from .client_group import ClientGroup
    from .client_messages import OutgoingMessage
    from .client_subscriptions import Change, Subscription
    from .elicitation_and_input_rounds import FormChoice, FormField, FormRequest, UrlRequest
    from .remote_tools import RemoteTool
    from .server_message_handlers import SampleRequest, SamplingHandler
    from .sync_client import SyncClient, SyncSubscription, SyncTaskHandle, SyncTool
    from .task_handles import TaskHandle, TaskStatus
    from .telemetry_tracing_and_recording import ClientTelemetry, Replay
    from .timeouts_retries_and_progress import Retries, Timeout
    from .transport_interface_and_memory import Transport, TransportListener
else:
    from .._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".auth.login_callback": "LocalCallbackServer",
            ".auth.oauth_grants": "ClientCredentials EnterpriseManaged OAuth WorkloadIdentity",
            ".auth.token_storage": "FileTokens KeyringTokens MemoryTokens TokenStorage",
            ".call_results": "CallResult",
            ".client": "Client",
            ".client_group": "ClientGroup",
            ".client_messages": "OutgoingMessage",
            ".client_subscriptions": "Change Subscription",
            ".elicitation_and_input_rounds": "FormChoice FormField FormRequest UrlRequest",
            ".remote_tools": "RemoteTool",
            ".server_message_handlers": "SampleRequest SamplingHandler",
            ".sync_client": "SyncClient SyncSubscription SyncTaskHandle SyncTool",
            ".task_handles": "TaskHandle TaskStatus",
            ".telemetry_tracing_and_recording": "ClientTelemetry Replay",
            ".timeouts_retries_and_progress": "Retries Timeout",
            ".transport_interface_and_memory": "Transport TransportListener",
        },
    )

__all__ = [
    "CallResult", "Change", "Client", "ClientCredentials", "ClientGroup", "ClientTelemetry",
    "EnterpriseManaged", "FileTokens", "FormChoice", "FormField", "FormRequest", "KeyringTokens",
    "LocalCallbackServer", "MemoryTokens", "OAuth", "OutgoingMessage", "RemoteTool", "Replay", "Retries",
    "SampleRequest", "SamplingHandler", "Subscription", "SyncClient", "SyncSubscription", "SyncTaskHandle",
    "SyncTool", "TaskHandle", "TaskStatus", "Timeout", "TokenStorage", "Transport", "TransportListener",
    "UrlRequest", "WorkloadIdentity",
]  # fmt: skip
