"""Variables in the values of a host's configuration: which texts the host replaces, and which it takes as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from ...protocol.jsonrpc import is_array, is_object
from .table import PLACES, Host

_PATTERNS: Final[Mapping[str, str]] = {
    "$NAME": r"\$\w+",
    "${NAME}": r"\$\{[A-Za-z_]\w*\}",
    "${NAME:-default}": r"\$\{[A-Za-z_]\w*:-[^}]*\}",
    "${env:NAME}": r"\$\{env:[^}]*\}",
    "${file:PATH}": r"\$\{file:[^}]*\}",
    "${input:ID}": r"\$\{input:[^}]*\}",
    "${command:ID}": r"\$\{command:[^}]*\}",
    "${config:NAME}": r"\$\{config:[^}]*\}",
}
"""Regular expressions for the spellings in `Host.variables`; any other spelling there stands for itself."""


def variables_in(host: Host, value: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place and the spelling of each variable that a host replaces in a value, at any depth.

    Args:
        host: The host.
        value: A value of an entry, or an entry.
        place: The path of keys to the value, such as `env.TOKEN`.
    """
    if isinstance(value, str):
        pattern = _pattern(host)
        for found in pattern.finditer(value) if pattern is not None else ():
            yield (
                place,
                next(each for each in host.variables if re.fullmatch(_spelled(each), found[0], re.ASCII)),
            )
    elif is_object(value):
        for key, each in value.items():
            yield from variables_in(host, each, f"{place}.{key}" if place else str(key))
    elif is_array(value):
        for index, each in enumerate(value):
            yield from variables_in(host, each, f"{place}[{index}]")


def as_clients_write(host: Host, value: object) -> object:
    """Return a value of a host's configuration, spelled so that a client reads what the host reads.

    A client replaces all known spellings of variables, and `${$}` stands for a dollar sign.
    """
    if isinstance(value, str):
        pattern = _pattern(host)
        either = rf"(?P<variable>{pattern.pattern})|\$" if pattern is not None else r"(?P<variable>(?!))|\$"
        return re.sub(either, lambda found: _for_client(host, found["variable"]), value, flags=re.ASCII)
    if is_object(value):
        return {key: as_clients_write(host, each) for key, each in value.items()}
    if is_array(value):
        return [as_clients_write(host, each) for each in value]
    return value


def escaped(text: str) -> str:
    """Return a text in which a client finds no variable."""
    return text.replace("$", "${$}")


def _for_client(host: Host, variable: str | None) -> str:
    """Return the spelling for a client of a variable of a host; None is a dollar sign that begins none."""
    if variable is None:
        return escaped("$")
    is_place_to_clients = variable in PLACES and variable not in host.variables
    return variable.replace("${", "${env:", 1) if is_place_to_clients else variable


def _spelled(spelling: str) -> str:
    return _PATTERNS.get(spelling) or re.escape(spelling)


@lru_cache(64)
def _pattern(host: Host) -> re.Pattern[str] | None:
    """Return what matches each variable of a host; None for a host that has none."""
    return re.compile("|".join(map(_spelled, host.variables)), re.ASCII) if host.variables else None
