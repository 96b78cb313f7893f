"""Content of results: text, images, sounds, files, resources, messages and whole results of tools.

Blocks have the form of 2026-07-28 (schema, `ContentBlock` and `ResourceContents`).
"""

from __future__ import annotations

import errno
import os
import re
from abc import ABC, abstractmethod
from binascii import b2a_base64
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from os import PathLike, fspath
from os.path import basename
from stat import S_ISDIR, S_ISREG
from typing import Any, ClassVar, Literal, cast

from pydantic_core import to_json

from .._utils.concurrency import running_loop
from .._utils.exceptions import OutputError
from ..protocol.jsonrpc import Json, is_object
from ..protocol.objects import Annotations, Icon
from . import media_types

Bytes = bytes | bytearray | memoryview
Role = Literal["user", "assistant"]
# The keys and indices that lead to a value.
Steps = tuple[str | int, ...]

_URI = r"[A-Za-z][A-Za-z0-9+.\-]*:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+"
_ROLES = {"user", "assistant"}
_MAX_TEXT = 60


class ContentError(ValueError):
    """Content cannot be sent. The message has the reason and the remedy, for the reader of the result."""


# Operations that may block


class LeaveLoop(BaseException):
    """The conversion may block and runs in the thread of an event loop; nothing has been read yet."""


_is_blocking_allowed: ContextVar[bool] = ContextVar("_is_blocking_allowed", default=False)


@contextmanager
def blocking_allowed() -> Generator[None, None, None]:
    """Disable `LeaveLoop` for values that are not results, such as defaults of arguments."""
    token = _is_blocking_allowed.set(True)
    try:
        yield
    finally:
        _is_blocking_allowed.reset(token)


def may_block() -> None:
    """Mark the start of an operation that may take long: reading a file, drawing a figure, computing items.

    Raises:
        LeaveLoop: This is the thread of an event loop, and the value is a result. The caller repeats the conversion
            in a thread.
    """
    if running_loop() is not None and not _is_blocking_allowed.get():
        raise LeaveLoop


# Values and their places in messages


def shown(value: Any) -> str:
    """Return a JSON value as text, shortened to about 60 characters."""
    return shortened(to_json(value, inf_nan_mode="constants", fallback=repr).decode())


def shortened(text: str) -> str:
    """Return a text, or its beginning and its length."""
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}… ({len(text)} characters)"


def path(steps: Steps) -> str:
    """Return the place of a value, such as `places[0].name`, on one line whatever the keys are."""
    text = ""
    for step in steps:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            key = shortened(step if step.isprintable() else shown(step))
            text += f".{key}" if text else key
    return text


def unreadable(place: str, error: Exception) -> str:
    """Return the message for an exception of the author's code; it leaves out the exception's text."""
    return f"{place} could not be read: {type(error).__name__} was raised; the server's log has the traceback"


def described(value: object) -> str:
    """Return a value's class with an article, for messages."""
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


# Base classes


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
            given: Mapping[str, Any] = annotations
            audience, priority = given.get("audience", []), given.get("priority", 0)
            if isinstance(audience, str) or not _ROLES.issuperset(audience):
                raise ValueError(
                    f'the annotation "audience" must be a list of "user" and "assistant", got {audience!r}'
                )
            if not 0 <= priority <= 1:
                raise ValueError(f'the annotation "priority" must be between 0 and 1, got {priority!r}')
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

    def _with_annotations(self, block: Json) -> Json:
        if self.annotations:
            block["annotations"] = dict(self.annotations)
        return self._with_meta(block)

    def _with_meta(self, value: Json) -> Json:
        if self.meta:
            value["_meta"] = dict(self.meta)
        return value


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
        return self._with_annotations({"type": "text", "text": checked(self.text)})

    def contents(self, uri: str, mime_type: str | None) -> Json:
        """Return the `TextResourceContents`.

        Args:
            uri: URI of the resource.
            mime_type: Media type of the resource; None for `text/plain`.
        """
        mime_type = mime_type or media_types.PLAIN_TEXT
        return self._with_meta({"uri": uri, "mimeType": mime_type, "text": checked(self.text)})


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
        return self._with_annotations({"type": "resource", "resource": self._resource(None)})

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
        return self._with_annotations({key: value for key, value in members.items() if value is not None})

    def contents(self, uri: str, mime_type: str | None) -> Json:
        """Raise a ContentError: a link has no contents."""
        raise ContentError("a ResourceLink has no contents; return a File instead")


# Images, sounds and files


class _Source(Content):
    """Bytes from a file or from memory; a file is read each time it is converted."""

    # `os` and not pathlib, which would cost the start of every server, with files or without.

    __slots__ = ("data", "mime_type", "path")

    def __init__(
        self,
        path: Any,
        data: Any,
        mime_type: str | None,
        annotations: Annotations | None,
        meta: Mapping[str, Any] | None,
    ) -> None:
        kind = type(self).__name__
        if (path is None) == (data is None):
            raise TypeError(f"{kind} takes exactly one of path= and data=")
        if data is not None and not isinstance(data, bytes | bytearray | memoryview | str):
            raise TypeError(f"{kind}: data must be bytes, got {type(data).__name__}")
        if path is not None and not isinstance(path, str | PathLike):
            raise TypeError(f"{kind}: path must be a str or a Path; pass bytes as data=")
        check_mime_type(mime_type)
        super().__init__(annotations, meta)
        self.mime_type = mime_type
        self.data: bytes | str | None = (
            data if data is None or isinstance(data, str) else bytes(cast("Bytes", data))
        )
        self.path: str | None = None if path is None else fspath(path)
        if self.path is not None:  # checked here, where the author can catch the error
            mode = os.stat(self.path).st_mode  # noqa: PTH116
            if S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.path)
            if S_ISREG(mode):  # a pipe would block
                os.close(os.open(self.path, os.O_RDONLY))

    def __repr__(self) -> str:
        source = f"path={self.path!r}" if self.path is not None else f"data=<{len(self.data or ())}>"
        return f"{type(self).__name__}({source}, mime_type={self.mime_type!r})"

    def _read(self) -> bytes | str:
        if self.path is None:
            assert self.data is not None
            return self.data
        may_block()
        with open(self.path, "rb") as file:  # noqa: PTH123
            return file.read()


class _Media(_Source):
    """An image or a sound."""

    __slots__ = ()
    _kind: ClassVar[str]

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        data: Bytes | None = None,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        name = type(self).__name__
        if isinstance(data, str):
            raise TypeError(f"{name}: data must be bytes; decode base64 first")
        if mime_type is not None and not mime_type.startswith(f"{self._kind}/"):
            raise ValueError(f'{name}: mime_type must begin with "{self._kind}/", got {mime_type!r}')
        super().__init__(path, data, mime_type, annotations, meta)

    def _encoded(self, declared: str | None) -> tuple[str, str]:
        """Return the data in base64, and its media type."""
        data, kind, mime_type = cast("bytes", self._read()), self._kind, self.mime_type
        if mime_type is None:
            guesses = (media_types.from_name(self.path or ""), media_types.from_bytes(data), declared)
            mime_type = next((each for each in guesses if each and each.startswith(kind)), None)
        if mime_type is None:
            source = repr(basename(self.path)) if self.path is not None else "the data"  # noqa: PTH119
            raise ContentError(f'{source} is not a known type of {kind}. Pass mime_type="{kind}/..."')
        return base64(data), mime_type

    def block(self) -> Json:
        """Return the `ImageContent` or `AudioContent` block.

        Raises:
            OSError: The file cannot be read.
            ContentError: No media type was given and none can be detected.
        """
        data, mime_type = self._encoded(None)
        return self._with_annotations({"type": self._kind, "data": data, "mimeType": mime_type})

    def contents(self, uri: str, mime_type: str | None) -> Json:
        """Return the `BlobResourceContents`.

        Args:
            uri: URI of the resource.
            mime_type: Media type of the resource, for data that is not detected.

        Raises:
            OSError: The file cannot be read.
            ContentError: No media type was given and none can be detected.
        """
        blob, own = self._encoded(mime_type)
        return self._with_meta({"uri": uri, "mimeType": own, "blob": blob})


class Image(_Media):
    """An image from a file or from bytes.

    Args:
        path: Path of an existing file; it is read when the result is sent.
        data: Bytes of the image, instead of `path`.
        mime_type: Media type; None detects it by the file name, then by the first bytes.
        annotations: Hints on the use of the block.
        meta: `_meta` of the block.

    Raises:
        OSError: `path` cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
        TypeError: Both or none of `path` and `data` are given, or they have the wrong type.
        ValueError: `mime_type` or an annotation has a value that the specification does not allow.
    """

    __slots__ = ()
    _kind = "image"


class Audio(_Media):
    """A sound from a file or from bytes.

    Args:
        path: Path of an existing file; it is read when the result is sent.
        data: Bytes of the sound, instead of `path`.
        mime_type: Media type; None detects it by the file name, then by the first bytes.
        annotations: Hints on the use of the block.
        meta: `_meta` of the block.

    Raises:
        OSError: `path` cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
        TypeError: Both or none of `path` and `data` are given, or they have the wrong type.
        ValueError: `mime_type` or an annotation has a value that the specification does not allow.
    """

    __slots__ = ()
    _kind = "audio"


class File(_Source):
    """A file that is embedded in a result, or is the contents of a resource.

    It is sent as text if it is a `str`, or UTF-8 without NUL and with a media type other than image, audio, video,
    font, PDF and `application/octet-stream`. Otherwise it is sent as a blob.

    Args:
        path: Path of an existing file; it is read when the result is sent.
        data: Contents of the file, instead of `path`.
        name: File name, by which the media type is detected; None takes the last part of `path`.
        uri: URI. None takes the URI of the resource that is read; in a result `attachment:///` with the name, or with
            a digest of the data.
        mime_type: Media type; None detects it by the file name, then by the first bytes.
        annotations: Hints on the use of the block.
        meta: `_meta` of the block.

    Raises:
        OSError: `path` cannot be read: FileNotFoundError, IsADirectoryError, PermissionError.
        TypeError: Both or none of `path` and `data` are given, or they have the wrong type.
        ValueError: `uri`, `mime_type` or an annotation has a value that the specification does not allow.
    """

    __slots__ = ("name", "uri")

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        data: Bytes | str | None = None,
        name: str | None = None,
        uri: str | None = None,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(path, data, mime_type, annotations, meta)
        if uri is not None:
            check_uri(uri)
        self.name = basename(self.path) if name is None and self.path is not None else name  # noqa: PTH119
        self.uri = uri

    def block(self) -> Json:
        """Return the `EmbeddedResource` block.

        Raises:
            OSError: The file cannot be read.
        """
        return self._with_annotations({"type": "resource", "resource": self._resource(None, None)})

    def contents(self, uri: str, mime_type: str | None) -> Json:
        """Return the `TextResourceContents` or `BlobResourceContents`.

        Args:
            uri: URI of the resource; the file's own comes first.
            mime_type: Media type of the resource; the file's own comes first.

        Raises:
            OSError: The file cannot be read.
        """
        return self._with_meta(self._resource(uri, mime_type))

    def _resource(self, uri: str | None, declared: str | None) -> Json:
        data = self._read()
        text = checked(data) if isinstance(data, str) else None
        uri = self.uri or uri or _attachment_uri(self.name, data)
        mime_type = self.mime_type or declared or media_types.from_name(self.name or "")
        if isinstance(data, bytes):
            mime_type = mime_type or media_types.from_bytes(data)
            text = media_types.as_text(data, mime_type)
            if text is None:
                return {"uri": uri, "mimeType": mime_type or media_types.BINARY, "blob": base64(data)}
        return {"uri": uri, "mimeType": mime_type or media_types.PLAIN_TEXT, "text": text}


def _attachment_uri(name: str | None, data: bytes | str) -> str:
    from urllib.parse import quote

    if name is None:
        from hashlib import blake2b

        name = blake2b(data.encode() if isinstance(data, str) else data, digest_size=8).hexdigest()
    return f"attachment:///{quote(name, safe='')}"


class Blob(Content):
    """Bytes without a declared media type."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        super().__init__(None, None)
        self.data = data

    def block(self) -> Json:
        """Return the block of an image or a sound if the data are one, else an `EmbeddedResource`."""
        kind = media_types.from_bytes(self.data)
        if kind is None:
            return File(data=self.data, mime_type=media_types.BINARY).block()
        return (Image if kind.startswith("image/") else Audio)(data=self.data, mime_type=kind).block()

    def contents(self, uri: str, mime_type: str | None) -> Json:
        """Return the `BlobResourceContents`; `mime_type` None detects the media type."""
        mime_type = mime_type or media_types.from_bytes(self.data) or media_types.BINARY
        return {"uri": uri, "mimeType": mime_type, "blob": base64(self.data)}


# Messages and whole results


class Message:
    """A message of a prompt or of a sampling request.

    Args:
        role: `user` or `assistant`.
        content: A string or other content (`Image`, `File`, a dict, ...). Several parts become several messages, as a
            message of the protocol has one part.

    Raises:
        ValueError: `role` is another word.
    """

    __slots__ = ("content", "role")

    def __init__(self, role: Role, content: Any) -> None:
        if role not in {"user", "assistant"}:
            raise ValueError(f"role must be 'user' or 'assistant', got {role!r}")
        self.role = role
        self.content = content

    def __repr__(self) -> str:
        return f"Message({self.role!r}, {self.content!r})"


def user(content: Any) -> Message:
    """Return a message with the role `user`.

    Args:
        content: Content of the message, see `Message`.
    """
    return Message("user", content)


def assistant(content: Any) -> Message:
    """Return a message with the role `assistant`.

    Args:
        content: Content of the message, see `Message`.
    """
    return Message("assistant", content)


class ExtensionResult(Json, WholeResult):
    """A result of a type that an extension defines, made by `extension.result(...)`.

    In the return annotation of a tool, beside other types, it is not part of the output schema.
    """

    __slots__ = ()
    __mcp_extension_result__: ClassVar = True


class Absent(Enum):
    """Type of `ToolResult.ABSENT`: a member of an enumeration is the same object after pickling."""

    ABSENT = "absent"


class ToolResult(WholeResult):
    """A complete tool result: content, structured content, `isError` and `_meta` (server/tools, "Tool Result").

    Args:
        content: Content of any kind that a tool may return. None sends the structured content as JSON text.
        structured: Structured content, or `ToolResult.ABSENT` for none.
        is_error: Whether the result is an error that the model should read.
        meta: `_meta` of the result.
    """

    __slots__ = ("content", "is_error", "meta", "structured")
    __mcp_content__: ClassVar = True
    ABSENT: ClassVar[Any] = Absent.ABSENT

    def __init__(
        self,
        content: Any = None,
        *,
        structured: Any = ABSENT,
        is_error: bool = False,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.content = content
        self.structured = structured
        self.is_error = is_error
        self.meta = meta

    def __repr__(self) -> str:
        structured = "" if self.structured is self.ABSENT else f", structured={self.structured!r}"
        return f"ToolResult({self.content!r}{structured}, is_error={self.is_error})"


# Blocks that authors write as dicts

# The types of blocks, and the strings that a block of each must have (server/tools, "Tool Result").
BLOCKS = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource": (),
    "resource_link": ("uri", "name"),
}


def check_block(block: dict[str, Any], place: str) -> None:
    """Check the members of a block that older protocol versions need; types that are not in `BLOCKS` pass.

    Args:
        block: The block; its `type` is a string.
        place: Place in the result, for messages.

    Raises:
        OutputError: A member is missing, or has another type.
    """

    def check_text(parent: Json, name: str, place: str) -> None:
        if not isinstance(parent.get(name), str):
            found = f", got {described(parent[name])}" if name in parent else ", but it is missing"
            raise OutputError(f"{place}.{name}: expected a string{found}")

    for name in BLOCKS.get(block["type"], ()):
        check_text(block, name, place)
    if block["type"] == "resource":
        resource, place = block.get("resource"), f"{place}.resource"
        if not is_object(resource):
            raise OutputError(f"{place}: expected an object with a uri, and text or blob")
        check_text(resource, "uri", place)
        if not isinstance(resource.get("text", resource.get("blob")), str):
            raise OutputError(f"{place}: expected text, or blob in base64, as a string")


def quoted(value: Any) -> str:
    """Return a string in quotation marks, or the class of another value, for messages on what was found."""
    return f'"{value[:60]}"' if isinstance(value, str) else described(value)
