"""Images and audio that tools return."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from ..types import AudioContent, ImageContent

SUBTYPES = {
    "image": {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp"},
    "audio": {".wav": "wav", ".mp3": "mpeg", ".ogg": "ogg", ".flac": "flac", ".aac": "aac", ".m4a": "mp4"},
}
"""MIME types by file suffix. The first is the default for bytes."""


class Media:
    """A file or bytes with a MIME type, which `format` or the file's suffix determines."""

    kind = ""  # not annotated: pydantic would take it for a field of what a tool is said to return

    def __init__(self, path: str | Path | None = None, data: bytes | None = None, format: str | None = None):  # noqa: A002 - its name there
        self.path, self.data, self._format = Path(path) if path else None, data, format
        self._mime_type = self._get_mime_type()

    def _get_mime_type(self) -> str:
        if self._format:
            return f"{self.kind}/{self._format.lower()}"
        subtypes = SUBTYPES[self.kind]
        subtype = subtypes.get(self.path.suffix.lower()) if self.path else next(iter(subtypes.values()))
        return f"{self.kind}/{subtype}" if subtype else "application/octet-stream"

    def _encoded(self) -> str:
        data = self.path.read_bytes() if self.path else self.data
        if data is None:
            raise ValueError(f"No {self.kind} data available")
        return b64encode(data).decode()


class Image(Media):
    """An image."""

    kind = "image"

    def __init__(self, path: str | Path | None = None, data: bytes | None = None, format: str | None = None):  # noqa: A002 - its name there
        if path is None and data is None:
            raise ValueError("Either path or data must be provided")
        if path is not None and data is not None:
            raise ValueError("Only one of path or data can be provided")
        super().__init__(path, data, format)

    def to_image_content(self) -> ImageContent:
        """Return it as a content block; a file is read now."""
        return ImageContent(type="image", data=self._encoded(), mimeType=self._mime_type)


class Audio(Media):
    """An audio clip."""

    kind = "audio"

    def __init__(self, path: str | Path | None = None, data: bytes | None = None, format: str | None = None):  # noqa: A002 - its name there
        if bool(path) == bool(data):
            raise ValueError("Either path or data can be provided")
        super().__init__(path, data, format)

    def to_audio_content(self) -> AudioContent:
        """Return it as a content block; a file is read now."""
        return AudioContent(type="audio", data=self._encoded(), mimeType=self._mime_type)
