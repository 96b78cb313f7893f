"""Import of the libraries of the extra `auth` on use."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from .._utils.package import install_command

if TYPE_CHECKING:
    from types import ModuleType


def http_library() -> ModuleType:
    """Return the module httpx2.

    Raises:
        ImportError: httpx2 is not installed. The message contains the install command.
    """
    return _imported("httpx2")


def check_jose() -> None:
    """Check that joserfc is installed.

    Raises:
        ImportError: joserfc is not installed. The message contains the install command.
    """
    _imported("joserfc.jwk")


def check_installed() -> None:
    """Check that httpx2 and joserfc are installed, without importing them.

    Raises:
        ImportError: One is not installed. The message contains the install command.
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
