"""TypedDicts with the specification's member names, which authors write themselves."""

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
    """An icon that a host may show (base protocol, "icons").

    Attributes:
        src: An `https:` or `data:` URI. Required.
        mimeType: Media type.
        sizes: Sizes such as `48x48`, or `any` for a scalable format.
        theme: Background for which the icon is made: `light` or `dark`.
    """

    src: str
    """An https: or data: URI. Required."""
    mimeType: str
    sizes: list[str]
    """Sizes such as `48x48`, or `any` for a scalable format."""
    theme: Literal["light", "dark"]


class Annotations(TypedDict, total=False):
    """Hints on the use of a resource or content block (server/resources, "Annotations").

    Attributes:
        audience: Intended readers: `user`, `assistant` or both.
        priority: Importance, from 0 (optional) to 1 (effectively required).
        lastModified: Time of the last change, in ISO 8601.
    """

    audience: list[Literal["user", "assistant"]]
    priority: float
    """From 0 (optional) to 1 (effectively required)."""
    lastModified: str
    """An ISO 8601 timestamp."""


class ToolAnnotations(TypedDict, total=False):
    """Hints on the behaviour of a tool (schema, `ToolAnnotations`).

    Attributes:
        title: Display name.
        readOnlyHint: Whether the tool only reads.
        destructiveHint: Whether it may delete or overwrite data; has no meaning for a read-only tool.
        idempotentHint: Whether further calls with the same arguments have no further effect.
        openWorldHint: Whether it interacts with external systems, such as the web.
    """

    title: str
    readOnlyHint: bool
    """It does not change its environment."""
    destructiveHint: bool
    """It may destroy something; meaningful when it is not read-only."""
    idempotentHint: bool
    """Calling it again with the same arguments changes nothing more."""
    openWorldHint: bool
    """It deals with things outside, such as the web."""
