"""Classes for values that become one content block each.

Blocks have the form of 2026-07-28 (schema, `ContentBlock` and `ResourceContents`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ..protocol.types import Annotations, Icon, Json
from . import media_types

_URI = r"[A-Za-z][A-Za-z0-9+.\-]*:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+"
_ROLES = {"user", "assistant"}

Bytes = bytes | bytearray | memoryview


class ContentError(ValueError):
    """Content cannot be sent. The message has the reason and the remedy, for the reader of the result."""


class WholeResult:
    """Base class of complete results."""

    __slots__ = ()


def base64(data: Bytes) -> str:
    """Return bytes in standard base64."""
    return b2a_base64(data, newline=False).decode("ascii")


def checked(text: str) -> str:
    """Return a text that can be encoded in UTF-8.

    Raises:
        ContentError: It has a lone surrogate.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ContentError(
                f"the text contains a lone surrogate (U+{ord(text[error.start]):04X} at index {error.start}), "
                'which UTF-8 cannot encode; decode the source with errors="replace"'
            ) from None
    return text


class Content(ABC):
    """Base class of values that become one content block.

    Args:
        annotations: `audience`, `priority` (0 to 1) and `lastModified` of the block.
        meta: `_meta` of the block.

    Raises:
        ValueError: An annotation has a value that the specification does not allow.
    """

    __slots__ = ("annotations", "meta")
    __mcp_content__: ClassVar = True

    def __init__(self, annotations: Annotations | None, meta: Mapping[str, Any] | None) -> None:
        if annotations:
            _check_annotations(annotations)
        self.annotations = annotations
        self.meta = meta

    @abstractmethod
    def block(self) -> Json:
        """Return the content block."""

    @abstractmethod
    def contents(self, uri: str, mime_type: str | None) -> Json:
        """Return the contents of a resource.

        Args:
            uri: URI of the resource.
            mime_type: Media type of the resource, or None.
        """

    def _finished(self, block: Json) -> Json:
        if self.annotations:
            block["annotations"] = dict(self.annotations)
        return self._with_meta(block)

    def _with_meta(self, value: Json) -> Json:
        if self.meta:
            value["_meta"] = dict(self.meta)
        return value


def _check_annotations(annotations: Mapping[str, Any]) -> None:
    audience = annotations.get("audience", [])
    if isinstance(audience, str) or not _ROLES.issuperset(audience):
        raise ValueError(
            f'the annotation "audience" must be a list of "user" and "assistant", got {audience!r}'
        )
    priority = annotations.get("priority", 0)
    if not 0 <= priority <= 1:
        raise ValueError(f'the annotation "priority" must be between 0 and 1, got {priority!r}')


def check_mime_type(mime_type: str | None) -> None:
    """Raise a ValueError if a media type is invalid."""
    if mime_type is not None and "/" not in mime_type:
        raise ValueError(f'mime_type must look like "text/plain", got {mime_type!r}')


def check_uri(uri: str) -> None:
    """Raise a ValueError if a URI is invalid."""
    if not re.fullmatch(_URI, uri):
        raise ValueError(f"{uri!r} is not a URI. Begin it with a scheme, and percent-encode other characters")


class Text(Content):
    """A text block with annotations or `_meta`; a plain `str` does without them.

    Args:
        text: The text.
        annotations: Hints on the use of the block.
        meta: `_meta` of the block.

    Raises:
        TypeError: `text` is not a string.
        ValueError: An annotation has a value that the specification does not allow.
    """

    __slots__ = ("text",)

    def __init__(
        self, text: str, *, annotations: Annotations | None = None, meta: Mapping[str, Any] | None = None
    ) -> None:
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f"Text takes a str, got {type(text).__name__}")
        super().__init__(annotations, meta)
        self.text = text

    def __repr__(self) -> str:
        return f"Text({self.text!r})"

    def block(self) -> Json:
        """Return the `TextContent` block."""
        return self._finished({"type": "text", "text": checked(self.text)})

    def contents(self, uri: str, mime_type: str | None) -> Json:
        """Return the `TextResourceContents`.

        Args:
            uri: URI of the resource.
            mime_type: Media type of the resource; None for `text/plain`.
        """
        return self._with_meta(
            {"uri": uri, "mimeType": mime_type or media_types.PLAIN_TEXT, "text": checked(self.text)}
        )


class TypedText(Text):
    """Text of a known media type."""

    __slots__ = ("mime_type",)

    def __init__(self, text: str, mime_type: str) -> None:
        super().__init__(text)
        self.mime_type = mime_type

    def contents(self, uri: str, mime_type: str | None) -> Json:
        """Return the `TextResourceContents`; `mime_type` None takes its own media type."""
        return super().contents(uri, mime_type or self.mime_type)


class EmbeddedResource(Content):
    """The contents of a resource, embedded in a result.

    Args:
        uri: URI of the resource.
        text: Contents as text.
        blob: Contents as bytes, instead of `text`.
        mime_type: Media type, or None.
        annotations: Hints on the use of the block.
        meta: `_meta` of the block.

    Raises:
        TypeError: Both or none of `text` and `blob` are given, or they have the wrong type.
        ValueError: `uri`, `mime_type` or an annotation has a value that the specification does not allow.
    """

    __slots__ = ("blob", "mime_type", "text", "uri")

    def __init__(
        self,
        uri: str,
        *,
        text: str | None = None,
        blob: Bytes | None = None,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        if (text is None) == (blob is None):
            raise TypeError("EmbeddedResource takes exactly one of text= and blob=")
        if isinstance(blob, str):
            raise TypeError("EmbeddedResource: blob must be bytes; decode base64 first")
        check_uri(uri)
        check_mime_type(mime_type)
        super().__init__(annotations, meta)
        self.uri = uri
        self.text = text
        self.blob = None if blob is None else bytes(blob)
        self.mime_type = mime_type

    def __repr__(self) -> str:
        return f"EmbeddedResource({self.uri!r}, mime_type={self.mime_type!r})"

    def block(self) -> Json:
        """Return the `EmbeddedResource` block."""
        return self._finished({"type": "resource", "resource": self._resource(None)})

    def contents(self, uri: str, mime_type: str | None) -> Json:
        """Return the contents at the object's own URI; `uri` is ignored."""
        return self._with_meta(self._resource(mime_type))

    def _resource(self, declared: str | None) -> Json:
        mime_type = self.mime_type or declared
        resource: Json = {"uri": self.uri}
        if mime_type is not None:
            resource["mimeType"] = mime_type
        if self.text is not None:
            resource["text"] = checked(self.text)
        elif self.blob is not None:
            resource["blob"] = base64(self.blob)
        return resource


class ResourceLink(Content):
    """A link to a resource that the client may read.

    Args:
        uri: URI of the resource.
        name: Name of the resource.
        title: Display name.
        description: Description of the resource.
        mime_type: Media type.
        size: Size in bytes.
        icons: Icons that a host may show.
        annotations: Hints on the use of the block.
        meta: `_meta` of the block.

    Raises:
        ValueError: `uri`, `mime_type` or an annotation has a value that the specification does not allow.
    """

    __slots__ = ("description", "icons", "mime_type", "name", "size", "title", "uri")

    def __init__(
        self,
        uri: str,
        name: str,
        *,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        icons: Sequence[Icon] | None = None,
        annotations: Annotations | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        check_uri(uri)
        check_mime_type(mime_type)
        super().__init__(annotations, meta)
        self.uri = uri
        self.name = name
        self.title = title
        self.description = description
        self.mime_type = mime_type
        self.size = size
        self.icons = icons

    def __repr__(self) -> str:
        return f"ResourceLink({self.uri!r}, {self.name!r})"

    def block(self) -> Json:
        """Return the `ResourceLink` block."""
        members = {
            "type": "resource_link",
            "uri": self.uri,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "mimeType": self.mime_type,
            "size": self.size,
            "icons": [dict(icon) for icon in self.icons] if self.icons else None,
        }
        return self._finished({key: value for key, value in members.items() if value is not None})

    def contents(self, uri: str, mime_type: str | None) -> Json:
        """Raise a ContentError: a link has no contents."""
        raise ContentError("a ResourceLink has no contents; return a File instead")
