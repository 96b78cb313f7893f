"""Images, sounds and files, from a path or from memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from os import PathLike, fspath
from os.path import basename
from stat import S_ISDIR, S_ISREG
from typing import Any, ClassVar, cast

from ..protocol.types import Annotations, Json
from . import media_types
from .blocks import Bytes, Content, ContentError, base64, check_mime_type, check_uri, checked
from .lazy import may_block


class _Source(Content):
    """Bytes from a file or from memory; a file is read each time it is converted."""

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
        self.path: str | None = None if path is None else fspath(path)
        if (
            self.path is not None
        ):  # so that it is said where the author may catch it, and not once all is done
            _check_readable(self.path)
        self.data: bytes | str | None = (
            data if data is None or isinstance(data, str) else bytes(cast("Bytes", data))
        )
        self.mime_type = mime_type

    def __repr__(self) -> str:
        source = f"path={self.path!r}" if self.path is not None else f"data=<{len(self.data or ())}>"
        return f"{type(self).__name__}({source}, mime_type={self.mime_type!r})"

    def _read(self) -> bytes | str:
        if self.path is not None:
            may_block()
            # pathlib would cost every server's start, files or not.
            with open(self.path, "rb") as file:  # noqa: PTH123
                return file.read()
        assert self.data is not None
        return self.data


class _Media(_Source):
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
        if isinstance(data, str):
            raise TypeError(f"{type(self).__name__}: data must be bytes; decode base64 first")
        if mime_type is not None and not mime_type.startswith(f"{self._kind}/"):
            raise ValueError(
                f'{type(self).__name__}: mime_type must begin with "{self._kind}/", got {mime_type!r}'
            )
        super().__init__(path, data, mime_type, annotations, meta)

    def _read_media(self, declared: str | None) -> tuple[bytes, str]:
        data = self._read()
        assert isinstance(data, bytes)
        if self.mime_type is not None:
            return data, self.mime_type
        for guess in (media_types.from_name(self.path or ""), media_types.from_bytes(data), declared):
            if guess and guess.startswith(self._kind):
                return data, guess
        source = repr(basename(self.path)) if self.path is not None else "the data"  # noqa: PTH119 - as above
        raise ContentError(f'{source} is not a known type of {self._kind}. Pass mime_type="{self._kind}/..."')

    def block(self) -> Json:
        """Return the `ImageContent` or `AudioContent` block.

        Raises:
            OSError: The file cannot be read.
            ContentError: No media type was given and none can be detected.
        """
        data, mime_type = self._read_media(None)
        return self._finished({"type": self._kind, "data": base64(data), "mimeType": mime_type})

    def contents(self, uri: str, mime_type: str | None) -> Json:
        """Return the `BlobResourceContents`.

        Args:
            uri: URI of the resource.
            mime_type: Media type of the resource, for data that is not detected.

        Raises:
            OSError: The file cannot be read.
            ContentError: No media type was given and none can be detected.
        """
        data, own = self._read_media(mime_type)
        return self._with_meta({"uri": uri, "mimeType": own, "blob": base64(data)})


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
        self.name = basename(self.path) if name is None and self.path is not None else name  # noqa: PTH119 - as above
        self.uri = uri

    def block(self) -> Json:
        """Return the `EmbeddedResource` block.

        Raises:
            OSError: The file cannot be read.
        """
        return self._finished({"type": "resource", "resource": self._resource(None, None)})

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
        uri = self.uri or uri or _attachment(self.name, data)
        mime_type = self.mime_type or declared or media_types.from_name(self.name or "")
        if isinstance(data, str):
            return {"uri": uri, "mimeType": mime_type or media_types.PLAIN_TEXT, "text": checked(data)}
        mime_type = mime_type or media_types.from_bytes(data)
        text = media_types.as_text(data, mime_type)
        if text is not None:
            return {"uri": uri, "mimeType": mime_type or media_types.PLAIN_TEXT, "text": text}
        return {"uri": uri, "mimeType": mime_type or media_types.BINARY, "blob": base64(data)}


def _check_readable(path: str) -> None:
    """Check that a file can be read.

    Raises:
        OSError: It cannot be read.
    """
    mode = os.stat(path).st_mode  # noqa: PTH116 - pathlib would cost every server's start, files or not
    if S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if S_ISREG(mode):  # a pipe would block
        os.close(os.open(path, os.O_RDONLY))


def _attachment(name: str | None, data: bytes | str) -> str:
    if name is None:
        from hashlib import blake2b

        content = checked(data).encode() if isinstance(data, str) else data
        name = blake2b(content, digest_size=8).hexdigest()
    from urllib.parse import quote

    return f"attachment:///{quote(name, safe='')}"
