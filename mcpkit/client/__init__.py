"""Clients, their authorization, handlers and transports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .asking.forms import FormChoice, FormField, FormRequest
    from .asking.sampling import SampleRequest, SamplingHandler
    from .asking.visits import UrlRequest
    from .auth.file_tokens import FileTokens
    from .auth.grants_without_login import ClientCredentials, EnterpriseManaged, WorkloadIdentity
    from .auth.keyring_tokens import KeyringTokens
    from .auth.login_callback import LocalCallbackServer
    from .auth.oauth import OAuth
    from .auth.token_storage import MemoryTokens, TokenStorage
    from .call_results import CallResult
    from .changes.changes import Change, Subscription
    from .client import Client
    from .client_messages import OutgoingMessage
    from .group import ClientGroup
    from .request_telemetry import ClientTelemetry
    from .retries_and_timeouts import Retries, Timeout
    from .sync import SyncClient, SyncSubscription, SyncTool
    from .tools.remote_tools import RemoteTool
    from .trace_and_record import Replay
    from .transport_interface import Transport, TransportListener
else:
    from .._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".asking.forms": "FormChoice FormField FormRequest",
            ".asking.sampling": "SampleRequest SamplingHandler",
            ".asking.visits": "UrlRequest",
            ".auth.file_tokens": "FileTokens",
            ".auth.grants_without_login": "ClientCredentials EnterpriseManaged WorkloadIdentity",
            ".auth.keyring_tokens": "KeyringTokens",
            ".auth.login_callback": "LocalCallbackServer",
            ".auth.oauth": "OAuth",
            ".auth.token_storage": "MemoryTokens TokenStorage",
            ".changes.changes": "Change Subscription",
            ".client": "Client",
            ".group": "ClientGroup",
            ".call_results": "CallResult",
            ".transport_interface": "Transport TransportListener",
            ".trace_and_record": "Replay",
            ".request_telemetry": "ClientTelemetry",
            ".retries_and_timeouts": "Retries Timeout",
            ".sync": "SyncClient SyncSubscription SyncTool",
            ".tools.remote_tools": "RemoteTool",
            ".client_messages": "OutgoingMessage",
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
    "SyncTool",
    "Timeout",
    "TokenStorage",
    "Transport",
    "TransportListener",
    "UrlRequest",
    "WorkloadIdentity",
]
