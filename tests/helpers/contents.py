"""What the tests of content and of objects that show themselves have in common."""

from __future__ import annotations

import base64
import dataclasses
import enum
from typing import Any

import pydantic

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16
MAGIC = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "image/gif": b"GIF89a\1\0",
    "image/webp": b"RIFF\x1a\0\0\0WEBPVP8 ",
    "image/bmp": b"BM\x46\0\0\0\0\0\0\0\x36",
    "image/svg+xml": b'<?xml version="1.0"?>\n<!-- a circle -->\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "audio/wav": b"RIFF\x24\0\0\0WAVEfmt ",
    "audio/mpeg": b"\xff\xfb\x90\x64\0\0",
    "audio/ogg": b"OggS\0\2\0\0",
    "audio/flac": b"fLaC\0\0\0\x22",
    "audio/mp4": b"\0\0\0\x20ftypM4A \0\0",
}


class Point(pydantic.BaseModel):
    x: float
    name: str = pydantic.Field(default="p", alias="label")


@dataclasses.dataclass
class Station:
    id: str
    position: tuple[float, float]


class Shape(str, enum.Enum):
    ROUND = "round"


def text(value: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": value}]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def shows(**methods: Any) -> Any:
    """Make an object with the representations that are given, as IPython knows them."""
    return type(
        "Shows", (), {f"_repr_{name}_": lambda self, value=value: value for name, value in methods.items()}
    )()
