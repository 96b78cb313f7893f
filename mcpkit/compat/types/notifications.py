"""Base classes of the notifications in `mcp.types`."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel, Field

from ...protocol.jsonrpc import Json
from .basic import Model
from .requests import MethodT


class NotificationParams(BaseModel, defer_build=True):
    class Meta(Model):
        pass

    meta: Meta | None = Field(alias="_meta", default=None)


NotificationParamsT = TypeVar("NotificationParamsT", bound=NotificationParams | Json | None)


class Notification(Model, Generic[NotificationParamsT, MethodT]):
    method: MethodT
    params: NotificationParamsT
