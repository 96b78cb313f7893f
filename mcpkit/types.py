"""Types for arguments and results of tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .content.renderers import as_content
    from .schema.json_types import json_type
    from .schema.texts import Email, Uri
else:
    from .common.late_names import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".content.renderers": "as_content",
            ".schema.json_types": "json_type",
            ".schema.texts": "Email Uri",
        },
    )

__all__ = [
    "Email",
    "Uri",
    "as_content",
    "json_type",
]
