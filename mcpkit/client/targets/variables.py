"""Variables in configurations, such as `$NAME`, `${NAME:-default}`, `${env:NAME}` and `${userHome}`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_REFERENCE: Final = re.compile(r"\$(?:\{([^}]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Variables:
    """The values of variables in a configuration.

    Args:
        folder: The folder that stands for the host's workspace.
        inputs: Values that an editor would prompt for (`inputs` of VS Code): descriptions by id.
    """

    def __init__(self, folder: Path, inputs: Mapping[str, str]) -> None:
        self._inputs = inputs
        self._places = {
            "workspaceFolder": str(folder),
            "workspaceFolderBasename": folder.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
            "$": "$",
        }

    def fill(self, text: str, place: str) -> str:
        """Return a text with the values of its variables.

        Args:
            text: The text.
            place: Where it stands, for the error.

        Raises:
            ValueError: A variable is not set and has no default, or only a host knows it; no value is shown.
        """
        return _REFERENCE.sub(lambda found: self._value(found, place), text)

    def _value(self, found: re.Match[str], place: str) -> str:
        braced: str | None = found[1]
        if braced is None:
            return _set(found[2], place, ", or write ${$} for a literal dollar sign")
        if braced in self._places:
            return self._places[braced]
        kind, colon, rest = braced.partition(":")
        if colon and kind == "input":
            asked = f" ({self._inputs[rest]})" if rest in self._inputs else ""
            raise ValueError(
                f"{place}: ${{input:{rest}}}{asked} is a prompt of an editor and is not supported. "
                "Set an environment variable, and write ${env:ITS_NAME}"
            )
        name, has_default, default = (rest if colon and kind == "env" else braced).partition(":-")
        if "${" in default:
            raise ValueError(
                f"{place}: the default of ${{{name}}} contains another variable, which is not supported"
            )
        if _NAME.fullmatch(name) is None:
            raise ValueError(
                f"{place}: unknown variable ${{{name}}}. Use ${{NAME}}, ${{env:NAME}} or ${{NAME:-default}} for "
                f"environment variables, or {', '.join(f'${{{each}}}' for each in self._places)}"
            )
        if has_default:
            return os.environ.get(name) or default
        return _set(name, place, f", or write ${{{name}:-default}}")


def _set(name: str, place: str, way_out: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise ValueError(f"{place}: the environment variable {name} is not set. Set it{way_out}")
    return value
