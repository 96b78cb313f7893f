"""The classes of `mcp.types`, with the same names, fields and defaults.

`basic` has the names that every server needs at once. Other modules are imported at the first use of one of their
names, and all other classes are then created from the table in `messages`. Docstrings of models are part of the
protocol: they become descriptions in schemas.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING
from typing import Literal as Literal

from ...protocol.jsonrpc import Json as Json
from .basic import CONNECTION_CLOSED as CONNECTION_CLOSED
from .basic import DEFAULT_NEGOTIATED_VERSION as DEFAULT_NEGOTIATED_VERSION
from .basic import INTERNAL_ERROR as INTERNAL_ERROR
from .basic import INVALID_PARAMS as INVALID_PARAMS
from .basic import INVALID_REQUEST as INVALID_REQUEST
from .basic import LATEST_PROTOCOL_VERSION as LATEST_PROTOCOL_VERSION
from .basic import METHOD_NOT_FOUND as METHOD_NOT_FOUND
from .basic import PARSE_ERROR as PARSE_ERROR
from .basic import URL_ELICITATION_REQUIRED as URL_ELICITATION_REQUIRED
from .basic import Annotations as Annotations
from .basic import AnyFunction as AnyFunction
from .basic import Cursor as Cursor
from .basic import Icon as Icon
from .basic import LoggingLevel as LoggingLevel
from .basic import Model as Model
from .basic import ProgressToken as ProgressToken
from .basic import RequestId as RequestId
from .basic import Role as Role
from .basic import Whole as Whole

if TYPE_CHECKING:
    from _typeshed import Incomplete
    from pydantic import AnyUrl as AnyUrl
    from pydantic import FileUrl as FileUrl

    from .content import AudioContent as AudioContent
    from .content import BlobResourceContents as BlobResourceContents
    from .content import CallToolResult as CallToolResult
    from .content import Content as Content
    from .content import ContentBlock as ContentBlock
    from .content import EmbeddedResource as EmbeddedResource
    from .content import ErrorData as ErrorData
    from .content import GetPromptResult as GetPromptResult
    from .content import ImageContent as ImageContent
    from .content import Prompt as Prompt
    from .content import PromptArgument as PromptArgument
    from .content import PromptMessage as PromptMessage
    from .content import Resource as Resource
    from .content import ResourceContents as ResourceContents
    from .content import ResourceLink as ResourceLink
    from .content import ResourceTemplate as ResourceTemplate
    from .content import Spoken as Spoken
    from .content import TextContent as TextContent
    from .content import TextResourceContents as TextResourceContents
    from .notifications import Notification as Notification
    from .notifications import NotificationParams as NotificationParams
    from .notifications import NotificationParamsT as NotificationParamsT
    from .requests import MethodT as MethodT
    from .requests import PaginatedRequest as PaginatedRequest
    from .requests import PaginatedRequestParams as PaginatedRequestParams
    from .requests import Request as Request
    from .requests import RequestParams as RequestParams
    from .requests import RequestParamsT as RequestParamsT
    from .requests import TaskMetadata as TaskMetadata
    from .requests import Url as Url
    from .results import PaginatedResult as PaginatedResult
    from .results import Result as Result
    from .tools import BaseMetadata as BaseMetadata
    from .tools import Tool as Tool
    from .tools import ToolAnnotations as ToolAnnotations
    from .tools import ToolExecution as ToolExecution


_HOMES = {
    "tools": "BaseMetadata Tool ToolAnnotations ToolExecution",
    "requests": "MethodT PaginatedRequest PaginatedRequestParams Request RequestParams RequestParamsT TaskMetadata Url",
    "results": "PaginatedResult Result",
    "content": "AudioContent BlobResourceContents CallToolResult Content ContentBlock EmbeddedResource ErrorData"
    " GetPromptResult ImageContent Prompt PromptArgument PromptMessage Resource ResourceContents ResourceLink"
    " ResourceTemplate Spoken TextContent TextResourceContents",
    "notifications": "Notification NotificationParams NotificationParamsT",
}
"""The names of the modules that are imported late."""
_LATE = {
    **{name: f".{home}" for home, names in _HOMES.items() for name in names.split()},
    **dict.fromkeys(("AnyUrl", "FileUrl"), "pydantic"),
}


def __getattr__(name: str) -> Incomplete:
    """Import a class of another module, or create it from the table. Raises AttributeError if there is none."""
    from .messages import FACTS, made

    if name == "__all__":
        return __dir__()
    if name in _LATE:
        found = getattr(importlib.import_module(_LATE[name], __name__), name)
        _call_by_this_module()
    elif name not in FACTS and not name.startswith("_") and name in (everything := _everything()):
        found = everything[name]
    else:
        found = made(name, sys.modules[__name__])
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    from .messages import FACTS

    names = [name for name, it in _everything().items() if not isinstance(it, ModuleType)]
    return sorted({*FACTS, *_LATE, *(name for name in names if not name.startswith("_"))})


def _everything() -> dict[str, object]:
    """Import the late modules, and return all names in these modules, including those that they import."""
    homes = [importlib.import_module(f".{home}", __name__) for home in ("basic", *_HOMES)]
    _call_by_this_module()
    return {name: it for module in (*homes, sys.modules[__name__]) for name, it in vars(module).items()}


def _call_by_this_module() -> None:
    """Set `__module__` of the imported classes to this module."""
    for home in ("basic", *_HOMES):
        for it in vars(sys.modules.get(f"{__name__}.{home}", sys)).values():
            if isinstance(it, type) and it.__module__ == f"{__name__}.{home}":
                it.__module__ = __name__


_call_by_this_module()
