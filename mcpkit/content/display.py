"""IPython's display protocol, `_repr_png_` and the like."""

from __future__ import annotations

from collections.abc import Mapping
from io import IOBase
from typing import Any, cast

from .blocks import TypedText
from .media import Image

_BUNDLE = "_repr_mimebundle_"
_METHODS = {
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_svg_": "image/svg+xml",
    "_repr_markdown_": "text/markdown",
    "_repr_html_": "text/html",
}
"""IPython's methods in the order in which a model profits from them."""

_BUNDLE_ORDER = (
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/svg+xml",
    "text/markdown",
    "text/plain",
    "text/html",
)


def can_display(kind: type) -> bool:
    """Return whether a class has a display method."""
    return any(hasattr(kind, name) for name in (_BUNDLE, *_METHODS))


def display(value: object) -> Image | TypedText | None:
    """Return the best representation of an object of a class that `can_display`, or None."""
    kind = type(value)
    if hasattr(kind, _BUNDLE) and (shown := _from_bundle(value)):
        return shown
    for name, mime_type in _METHODS.items():
        if hasattr(kind, name) and (shown := _shown(mime_type, getattr(value, name)())):
            return shown
    return None


def _from_bundle(value: Any) -> Image | TypedText | None:
    bundle = _without_metadata(getattr(value, _BUNDLE)(include=None, exclude=None))
    if not isinstance(bundle, Mapping):
        return None
    representations = cast("Mapping[str, Any]", bundle)
    shown = (_shown(mime_type, representations.get(mime_type)) for mime_type in _BUNDLE_ORDER)
    return next((each for each in shown if each is not None), None)


def _without_metadata(shown: Any) -> Any:
    # With metadata beside it, a representation is the first of a pair.
    return cast("Any", shown)[0] if isinstance(shown, tuple) else shown


def _shown(mime_type: str, data: Any) -> Image | TypedText | None:
    data = _without_metadata(data)
    if not data:
        return None
    is_image = mime_type.startswith("image/")
    if is_image and isinstance(data, str):
        from binascii import a2b_base64

        data = data.encode() if mime_type == "image/svg+xml" else a2b_base64(data)
    if is_image:
        return Image(data=data, mime_type=mime_type) if isinstance(data, bytes) else None
    return TypedText(data, mime_type) if isinstance(data, str) else None


def is_file(kind: Any) -> bool:
    """Return whether values of a class are open files, on disk or in memory."""
    return issubclass(kind, IOBase) or (kind.__module__, kind.__name__) == (
        "tempfile",
        "_TemporaryFileWrapper",
    )
