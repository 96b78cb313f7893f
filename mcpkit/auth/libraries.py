"""The libraries that the extra `auth` installs, each imported when it is used."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..common.installation import install_command

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


def check_installed() -> None:
    """Refuse to go on without httpx2 or joserfc, and load neither.

    Raises:
        ImportError: One is not installed; the message says how to install it.
    """
    for name in ("httpx2", "joserfc"):
        if name not in sys.modules and find_spec(name) is None:
            raise _missing(name, name)


def _imported(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise _missing(name.partition(".")[0], error.name) from error


def _missing(library: str, name: str | None) -> ImportError:
    return ImportError(f"authorization needs {library}. Run: {install_command('auth')}", name=name)
