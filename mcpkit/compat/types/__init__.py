"""What is said on the wire, as the classes of `mcp.types`: names, fields and defaults are the same as there.

In `basic` stands what every server needs at once; `content` and `notifications` are imported when one of their names
is asked for, and all other classes are made then, from the table in `messages`. Docstrings are texts of the wire: a
schema describes the classes by them.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING
from typing import Literal as Literal

from pydantic import AnyUrl as AnyUrl
from pydantic import FileUrl as FileUrl

from ...protocol.types import Json as Json
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
from .basic import BaseMetadata as BaseMetadata
from .basic import Cursor as Cursor
from .basic import Icon as Icon
from .basic import LoggingLevel as LoggingLevel
from .basic import MethodT as MethodT
from .basic import Model as Model
from .basic import PaginatedRequest as PaginatedRequest
from .basic import PaginatedRequestParams as PaginatedRequestParams
from .basic import PaginatedResult as PaginatedResult
from .basic import ProgressToken as ProgressToken
from .basic import Request as Request
from .basic import RequestId as RequestId
from .basic import RequestParams as RequestParams
from .basic import RequestParamsT as RequestParamsT
from .basic import Result as Result
from .basic import Role as Role
from .basic import TaskMetadata as TaskMetadata
from .basic import Tool as Tool
from .basic import ToolAnnotations as ToolAnnotations
from .basic import ToolExecution as ToolExecution
from .basic import Url as Url
from .basic import Whole as Whole

if TYPE_CHECKING:
    from _typeshed import Incomplete

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


_HOMES = "basic", "content", "notifications"


def __getattr__(name: str) -> Incomplete:
    """Make the class of the table or import it, or say that there is none."""
    from .messages import FACTS, made

    if name == "__all__":
        return __dir__()
    homes = () if name in FACTS or name.startswith("_") else map(_home, _HOMES)
    found = next((vars(home)[name] for home in homes if name in vars(home)), None)
    globals()[name] = found = found or made(name, sys.modules[__name__])
    return found


def __dir__() -> list[str]:
    from .messages import FACTS

    there = [*globals().items(), *(each for home in _HOMES for each in vars(_home(home)).items())]
    names = [name for name, it in there if name.isidentifier() and not isinstance(it, ModuleType)]
    return sorted({*FACTS, *(name for name in names if not name.startswith("_"))})


def _home(home: str) -> ModuleType:
    """Import a module, and have its classes say that they are from here, where authors know them."""
    module = importlib.import_module(f".{home}", __name__)
    for it in vars(module).values():
        if isinstance(it, type) and it.__module__ == module.__name__:
            it.__module__ = __name__
    return module


_home("basic")
