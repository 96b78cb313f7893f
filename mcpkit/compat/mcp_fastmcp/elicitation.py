"""Elicitation requests with results that a model validates."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from ..lowlevel.client_session import ServerSession

ElicitSchemaModelT = TypeVar("ElicitSchemaModelT", bound=BaseModel)

_PRIMITIVE_TYPES = (str, int, float, bool)


class AcceptedElicitation(BaseModel, Generic[ElicitSchemaModelT]):
    """The user accepted the request."""

    action: Literal["accept"] = "accept"
    data: ElicitSchemaModelT


class DeclinedElicitation(BaseModel):
    """The user declined the request."""

    action: Literal["decline"] = "decline"


class CancelledElicitation(BaseModel):
    """The user dismissed the request."""

    action: Literal["cancel"] = "cancel"


class AcceptedUrlElicitation(BaseModel):
    """The user agreed to visit the page."""

    action: Literal["accept"] = "accept"


ElicitationResult = Union[AcceptedElicitation[ElicitSchemaModelT], DeclinedElicitation, CancelledElicitation]  # noqa: UP007
UrlElicitationResult = Union[AcceptedUrlElicitation, DeclinedElicitation, CancelledElicitation]  # noqa: UP007


def _is_strings(annotation: object) -> bool:
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Sequence) and get_args(annotation) == (str,)


def _may_be_asked(annotation: object) -> bool:
    is_union = get_origin(annotation) in {Union, types.UnionType}
    kinds = get_args(annotation) if is_union else [annotation]
    return all(each in {None, types.NoneType, *_PRIMITIVE_TYPES} or _is_strings(each) for each in kinds)


async def elicit_with_validation(
    session: ServerSession, message: str, schema: type[ElicitSchemaModelT], related_request_id: object = None
) -> ElicitationResult[ElicitSchemaModelT]:
    """Request that the user fills in the fields of a model."""
    for name, field in schema.model_fields.items():
        if not _may_be_asked(field.annotation):
            raise TypeError(
                f"Elicitation schema field '{name}' must be a primitive type {_PRIMITIVE_TYPES}, a sequence of strings "
                "(list[str], etc.), or Optional of these types. Nested models and complex types are not allowed."
            )
    result = await session.elicit_form(message, schema.model_json_schema(), related_request_id)
    if result.action == "accept" and result.content is not None:
        return AcceptedElicitation(data=schema.model_validate(result.content))
    return _unanswered(result.action)


async def elicit_url(
    session: ServerSession, message: str, url: str, elicitation_id: str, related_request_id: object = None
) -> UrlElicitationResult:
    """Request that the user visits a page."""
    result = await session.elicit_url(message, url, elicitation_id, related_request_id)
    return AcceptedUrlElicitation() if result.action == "accept" else _unanswered(result.action)


def _unanswered(action: str) -> DeclinedElicitation | CancelledElicitation:
    if action not in {"decline", "cancel"}:
        raise ValueError(f"Unexpected elicitation action: {action}")
    return DeclinedElicitation() if action == "decline" else CancelledElicitation()
