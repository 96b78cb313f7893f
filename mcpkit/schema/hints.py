"""Type hints to JSON Schema and validator: by the table of types.py, which needs no pydantic, else by pydantic."""

from __future__ import annotations

from typing import Any

from .._utils.exceptions import RegistrationError, exception_text
from . import described, types
from .described import Described, Mode, NotInTable


def describe(annotation: Any, mode: Mode = "validation") -> Described:
    """Return JSON Schema and validator of a type.

    Args:
        annotation: The type, as `typing.get_type_hints(include_extras=True)` gives it.
        mode: Whether values come in or go out.

    Returns:
        Both.

    Raises:
        RegistrationError: JSON has no form for the type.
        UnresolvedHint: The type needs a name that is not defined yet.
    """
    token = described.mode.set(mode)
    try:
        return types.describe(annotation)
    except NotInTable:
        from . import models

        try:
            return models.describe(annotation, mode)
        except RegistrationError:
            raise
        except Exception as error:  # of pydantic, or of the author's classes and metadata
            raise RegistrationError(
                f"{models.named(annotation)} cannot be described: {exception_text(error) or type(error).__name__}; "
                "change the type, or its Field or Annotated metadata"
            ) from error
    finally:
        described.mode.reset(token)
