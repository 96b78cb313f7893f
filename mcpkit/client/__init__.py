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
    from .form_elicitation import FormChoice, FormField, FormRequest
    from .request_telemetry import ClientTelemetry
    from .retries_and_timeouts import Retries, Timeout
    from .server_request_handlers import SampleRequest, SamplingHandler
    from .sync_client import SyncClient, SyncSubscription, SyncTaskHandle, SyncTool
    from .task_handles import TaskHandle, TaskStatus
    from .tools.remote_tools import RemoteTool
    from .trace_and_record import Replay
    from .transport_interface import Transport, TransportListener
    from .url_elicitation import UrlRequest
else:
    from .._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".auth.login_callback": "LocalCallbackServer",
            ".auth.oauth_grants": "ClientCredentials EnterpriseManaged OAuth WorkloadIdentity",
            ".auth.token_storage": "FileTokens KeyringTokens MemoryTokens TokenStorage",
            ".client_subscriptions": "Change Subscription",
            ".client": "Client",
            ".client_group": "ClientGroup",
            ".call_results": "CallResult",
            ".transport_interface": "Transport TransportListener",
            ".trace_and_record": "Replay",
            ".request_telemetry": "ClientTelemetry",
            ".retries_and_timeouts": "Retries Timeout",
            ".sync_client": "SyncClient SyncSubscription SyncTaskHandle SyncTool",
            ".tools.remote_tools": "RemoteTool",
            ".client_messages": "OutgoingMessage",
            ".form_elicitation": "FormChoice FormField FormRequest",
            ".server_request_handlers": "SampleRequest SamplingHandler",
            ".task_handles": "TaskHandle TaskStatus",
            ".url_elicitation": "UrlRequest",
        },
    )

__all__ = [
    "CallResult",
    "Change",
    "Client",
    "ClientCredentials",
    "ClientGroup",
    "ClientTelemetry",
    "EnterpriseManaged",
    "FileTokens",
    "FormChoice",
    "FormField",
    "FormRequest",
    "KeyringTokens",
    "LocalCallbackServer",
    "MemoryTokens",
    "OAuth",
    "OutgoingMessage",
    "RemoteTool",
    "Replay",
    "Retries",
    "SampleRequest",
    "SamplingHandler",
    "Subscription",
    "SyncClient",
    "SyncSubscription",
    "SyncTaskHandle",
    "SyncTool",
    "TaskHandle",
    "TaskStatus",
    "Timeout",
    "TokenStorage",
    "Transport",
    "TransportListener",
    "UrlRequest",
    "WorkloadIdentity",
]
