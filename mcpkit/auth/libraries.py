"""The libraries that the extra `auth` installs, each imported when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def http_library() -> ModuleType:
    """Return httpx2.

    Raises:
        ImportError: It is not installed; the message says how to install it.
    """
    return _imported("httpx2")


def check_jose() -> None:
    """Refuse to go on without joserfc.

    Raises:
        ImportError: It is not installed; the message says how to install it.
    """
    _imported("joserfc.jwk")


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        library = name.partition(".")[0]
        raise ImportError(
            f'authorization needs {library}: pip install "mcpkit[auth]"', name=error.name
        ) from error
