"""String types with a format, `Email` and `Uri`, for arguments, results and fields of forms."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic_core import CoreSchema, core_schema


class Format(NamedTuple):
    """Format of a string, in `Annotated`; other strings are refused.

    Args:
        name: Name in JSON Schema, such as `email`.
    """

    name: str

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Check the format of a model's field."""
        from .values import formatted

        return core_schema.chain_schema([handler(source), formatted(self.name)])

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        """Add the format to the schema of a model's field."""
        return {**handler(core), "format": self.name}


Email = Annotated[str, Format("email")]
"""An email address, as a `str`."""

Uri = Annotated[str, Format("uri")]
"""A URI, as a `str`."""
