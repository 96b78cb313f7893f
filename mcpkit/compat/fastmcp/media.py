"""Images, audio and files that tools return."""

from __future__ import annotations

import mimetypes
import os
from base64 import b64encode
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from ...protocol.objects import Incomplete
from .. import types
from ..sdk_models import to_own
from .refusing import Refuses


def _own(annotations: Incomplete) -> Incomplete:
    return to_own(annotations)


class Media(Refuses):
    """A file or bytes with a MIME type, which `format` or the file's suffix determines."""

    kind: ClassVar[str]
    named: ClassVar[dict[str, str]]
    fallback: ClassVar[str]

    def __init__(
        self,
        path: str | Path | None = None,
        data: bytes | None = None,
        format: str | None = None,  # noqa: A002 - as servers pass it
        annotations: types.Annotations | None = None,
    ) -> None:
        if (path is None) == (data is None):
            raise ValueError(
                "Either path or data must be provided"
                if data is None
                else "Only one of path or data can be provided"
            )
        self.path = Path(os.path.expandvars(str(path))).expanduser() if path else None
        self.data, self._format, self.annotations = data, format, annotations
        if format:
            self._mime_type = self.named.get(format.lower(), f"{self.kind}/{format.lower()}")
        else:
            self._mime_type = self.fallback if self.path is None else self._of_path(self.path)

    def _of_path(self, path: Path) -> str:
        return mimetypes.guess_type(path, strict=False)[0] or "application/octet-stream"

    def _bytes(self) -> bytes:
        return self.path.read_bytes() if self.path else self.data or b""

    def _said(self, mime_type: str | None, annotations: types.Annotations | None) -> Incomplete:
        """Return the members that image and audio content share."""
        return {
            "data": b64encode(self._bytes()).decode(),
            "mimeType": mime_type or self._mime_type,
            "annotations": annotations or self.annotations,
        }

    def to_content(self) -> Incomplete:
        """Return it as a content block; a file is read now."""
        raise NotImplementedError


class Image(Media):
    """An image."""

    kind, fallback = "image", "image/png"
    named: ClassVar = {"jpg": "image/jpeg", "svg": "image/svg+xml", "tif": "image/tiff"}

    def to_image_content(
        self, mime_type: str | None = None, annotations: types.Annotations | None = None
    ) -> types.ImageContent:
        """Return it as a content block."""
        return types.ImageContent(type="image", **self._said(mime_type, annotations))

    to_content = to_image_content


class Audio(Media):
    """An audio clip."""

    kind, fallback = "audio", "audio/wav"
    named: ClassVar = {
        "wav": "audio/wav",
        "mp3": "audio/mpeg",
        "ogg": "audio/ogg",
        "m4a": "audio/mp4",
        "flac": "audio/flac",
    }

    def _of_path(self, path: Path) -> str:
        return self.named.get(path.suffix.lower().lstrip("."), "application/octet-stream")

    def to_audio_content(
        self, mime_type: str | None = None, annotations: types.Annotations | None = None
    ) -> types.AudioContent:
        """Return it as a content block."""
        return types.AudioContent(type="audio", **self._said(mime_type, annotations))

    to_content = to_audio_content


class File(Media):
    """A file of any type."""

    kind, fallback = "application", "application/octet-stream"
    named: ClassVar = {
        **dict.fromkeys(("plain", "txt", "text"), "text/plain"),
        **dict.fromkeys(("html", "htm"), "text/html"),
        **dict.fromkeys(("md", "markdown"), "text/markdown"),
        "csv": "text/csv",
    }

    def __init__(
        self,
        path: str | Path | None = None,
        data: bytes | None = None,
        format: str | None = None,  # noqa: A002
        name: str | None = None,
        annotations: types.Annotations | None = None,
    ) -> None:
        super().__init__(path, data, format, annotations)
        self._name = name

    def to_resource_content(
        self, mime_type: str | None = None, annotations: types.Annotations | None = None
    ) -> types.EmbeddedResource:
        """Return it as an embedded resource with text or bytes."""
        data, kind = self._bytes(), mime_type or self._mime_type
        if self.path:
            uri = self.path.resolve().as_uri()
        else:
            suffix = f".{self._format.lower() if self._format else self._mime_type.split('/')[1]}"
            name = self._name or "resource"
            uri = f"file:///{quote(name if self._name and Path(name).suffix else name + suffix)}"
        resource: types.TextResourceContents | types.BlobResourceContents
        if kind.startswith("text/"):
            try:
                text = data.decode()
            except UnicodeDecodeError:
                text = data.decode("latin-1")
            resource = types.TextResourceContents(uri=types.AnyUrl(uri), text=text, mimeType=kind)
        else:
            resource = types.BlobResourceContents(
                uri=types.AnyUrl(uri), blob=b64encode(data).decode(), mimeType=kind
            )
        said = annotations or self.annotations
        return types.EmbeddedResource(type="resource", resource=resource, annotations=_own(said))

    to_content = to_resource_content
