"""Shapes of the wire that authors write themselves, with the specification's own member names."""

# No `from __future__ import annotations`: a TypedDict compiles each of its hints then, at each start of a server.

from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from _typeshed import Incomplete as Incomplete  # noqa: PLC0414 - others import it from here
else:
    Incomplete = object

Json = dict[str, Any]
"""A JSON object, whatever its members hold."""


class Icon(TypedDict, total=False):
    """A picture that a host may show (base protocol, "icons")."""

    src: str
    """An https: or data: URI. Required."""
    mimeType: str
    sizes: list[str]
    """Sizes such as `48x48`, or `any` for a scalable format."""
    theme: Literal["light", "dark"]


class Annotations(TypedDict, total=False):
    """Hints on how to use a resource or a content block (server/resources, "Annotations")."""

    audience: list[Literal["user", "assistant"]]
    priority: float
    """From 0 (optional) to 1 (effectively required)."""
    lastModified: str
    """An ISO 8601 timestamp."""


class ToolAnnotations(TypedDict, total=False):
    """Hints on what a tool does (schema, `ToolAnnotations`)."""

    title: str
    readOnlyHint: bool
    """It does not change its environment."""
    destructiveHint: bool
    """It may destroy something; meaningful when it is not read-only."""
    idempotentHint: bool
    """Calling it again with the same arguments changes nothing more."""
    openWorldHint: bool
    """It deals with things outside, such as the web."""
