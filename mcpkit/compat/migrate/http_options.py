"""Arguments of `run("http", ...)` and `asgi(...)` from the constructor and the settings."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from .file import File
from .names import HINTS, SERVED
from .nodes import bound, call, is_literal, keyword, text_of
from .places import Place

_LISTENS = ("host", "port")
_OPTIONS = (*_LISTENS, "path", "stateless")
_USUAL = {"stateless": "False"}
_LOCAL = {"127.0.0.1", "localhost", "::1"}
_PATHS = ("sse_path", "message_path", "mount_path")

ANY_HOST = (
    "as in version 1, a server at this address accepts any Host header: list the host names of clients in "
    "allowed_hosts= or public_url="
)
SOME_HOST = (
    "requests with another Host header than localhost are rejected: if clients use another name, list it in "
    "allowed_hosts= or public_url="
)


class HttpOptions:
    """Finds the arguments of each call that serves.

    Args:
        file: Facts about the file.
    """

    def __init__(self, file: File) -> None:
        self._file = file

    def homeless(self, server: str, places: Sequence[Place]) -> set[str]:
        """Return the constructor arguments that no call takes; none if only stdio is served."""
        if places and all(each.kind == "stdio" for each in places):
            return set()
        served = self._file.served[server]
        takes = [each for each in places if each.kind != "stdio"]
        return {
            name
            for name in served
            if not takes or not all(self._is_known(server, name, each) for each in takes)
        }

    def of(self, place: Place, *, is_app: bool) -> tuple[dict[str, cst.BaseExpression], list[str]]:
        """Return the arguments by native name, and places to change by hand."""
        values = self._values(place)
        marks = [f"{name}: {HINTS[name]}" for name in _PATHS if name in place.settings]
        made = {
            name: values[name]
            for name in _OPTIONS
            if name in values
            and not (is_app and name in _LISTENS)
            and not _is(values[name], _USUAL.get(name))
        }
        security = next(
            (self._file.security[name] for name in place.server if name in self._file.security), None
        )
        security = place.settings.get("transport_security", security)
        if security is not None:
            made |= self._hosts(security, marks)
        elif "host" in values:
            host = values["host"]
            if not is_literal(host):
                marks.append(SOME_HOST)
            elif text_of(host) not in _LOCAL:
                made["allowed_hosts"] = cst.parse_expression('["*"]')
                marks.append(ANY_HOST)
        level = place.settings.get("log_level")
        if level is not None and not is_app:
            made["log_level"] = _lower(level)
        return made, marks

    def listens(self, place: Place) -> list[cst.Arg]:
        """Return host and port, for a call that runs an app."""
        values = self._values(place)
        defaults = {"host": cst.SimpleString('"127.0.0.1"'), "port": cst.Integer("8000")}
        return [keyword(name, values.get(name, defaults[name])) for name in _LISTENS]

    def _values(self, place: Place) -> dict[str, cst.BaseExpression]:
        values: dict[str, cst.BaseExpression] = {}
        for server in place.server:
            for name, value in self._file.served.get(server, {}).items():
                if self._is_known(server, name, place):
                    values[SERVED[name]] = value
        values.update((SERVED[name], value) for name, value in place.settings.items() if name in SERVED)
        return values

    def _is_known(self, server: str, name: str, place: Place) -> bool:
        """Return True if a constructor argument has the same meaning at the call that serves."""
        return all(f"{place.inside}.".startswith(f"{each}.") for each in self._file.scopes[server][name])

    def _hosts(self, security: cst.BaseExpression, marks: list[str]) -> dict[str, cst.BaseExpression]:
        given = bound(security, ()) if isinstance(security, cst.Call) else None
        is_off = given is not None and _is_word(given.get("enable_dns_rebinding_protection"), "False")
        if given is None:
            marks.append("transport_security: pass allowed_hosts= and allowed_origins= here")
            return {}
        if is_off:
            return {name: cst.parse_expression('["*"]') for name in ("allowed_hosts", "allowed_origins")}
        return {name: given[name].value for name in ("allowed_hosts", "allowed_origins") if name in given}


def _is(node: cst.BaseExpression, word: str | None) -> bool:
    return isinstance(node, cst.Name) and node.value == word


def _is_word(argument: cst.Arg | None, word: str) -> bool:
    return argument is not None and _is(argument.value, word)


def _lower(level: cst.BaseExpression) -> cst.BaseExpression:
    text = text_of(level)
    if text is not None:
        return cst.SimpleString(f'"{text.lower()}"')
    return call(cst.Attribute(level, cst.Name("lower")))
