"""Resources without a function: texts, bytes and files."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic import ValidationInfo, field_validator

from .resources import Resource


class TextResource(Resource):
    """A text resource."""

    text: str

    async def read(self) -> str:
        """Return the text."""
        return self.text


class BinaryResource(Resource):
    """A binary resource."""

    data: bytes

    async def read(self) -> bytes:
        """Return the bytes."""
        return self.data


class FileResource(Resource):
    """A file; as bytes if `is_binary`, or if its MIME type does not begin with `text/`."""

    path: Path
    mime_type: str = "text/plain"
    is_binary: bool = False

    @field_validator("path")
    @classmethod
    def validate_absolute_path(cls, path: Path) -> Path:
        """Check that the path is absolute."""
        if not path.is_absolute():
            raise ValueError("Path must be absolute")
        return path

    @field_validator("is_binary")
    @classmethod
    def set_binary_from_mime_type(cls, is_binary: bool, info: ValidationInfo) -> bool:
        """Set `is_binary` for a MIME type that does not begin with `text/`."""
        return is_binary or not info.data.get("mime_type", "text/plain").startswith("text/")

    async def read(self) -> str | bytes:
        """Read the file, in a thread."""
        try:
            return await asyncio.to_thread(self.path.read_bytes if self.is_binary else self.path.read_text)
        except Exception as error:
            raise ValueError(f"Error reading file {self.path}: {error}") from error
