"""Variables in the values of a host's configuration: which texts the host replaces, and which it takes as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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


_UNIT: Final = re.compile(r"\$\{[^}]*\}|\$\w+|\$", re.ASCII)
"""The texts that may be a variable, and dollar signs that begin none; `${` ends at the first brace, as in hosts."""


def variables_in(host: Host, value: object, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place and the spelling of each variable that a host replaces in a value, at any depth.

    Args:
        host: The host.
        value: A value of an entry, or an entry.
        place: The path of keys to the value, such as `env.TOKEN`.
    """
    if isinstance(value, str):
        for unit in _units(host, value):
            if (spelling := _spelling(host, unit)) is not None:
                yield place, spelling
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
        return "".join(_for_client(host, unit) for unit in _units(host, value))
    if is_object(value):
        return {key: as_clients_write(host, each) for key, each in value.items()}
    if is_array(value):
        return [as_clients_write(host, each) for each in value]
    return value


def escaped(text: str) -> str:
    """Return a text in which a client finds no variable."""
    return text.replace("$", "${$}")


def _units(host: Host, text: str) -> Iterator[str]:
    """Yield the parts of a text: each that may be a variable, and what stands between them."""
    end = 0
    while (found := _UNIT.search(text, end)) is not None:
        unit = found[0] if found[0].startswith("${") or "$NAME" in host.variables else "$"
        yield text[end : found.start()]
        yield unit
        end = found.start() + len(unit)
    yield text[end:]


def _spelling(host: Host, unit: str) -> str | None:
    """Return the spelling by which a host takes a text for a variable; None if it does not."""
    spellings = ((each, _PATTERNS.get(each) or re.escape(each)) for each in host.variables)
    return next((each for each, pattern in spellings if re.fullmatch(pattern, unit, re.ASCII)), None)


def _for_client(host: Host, unit: str) -> str:
    if _spelling(host, unit) is None:
        return escaped(unit)
    is_place_to_clients = unit in PLACES and unit not in host.variables
    return unit.replace("${", "${env:", 1) if is_place_to_clients else unit
