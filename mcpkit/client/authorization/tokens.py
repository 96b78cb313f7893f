"""What an authorization server has given: tokens, and a client's registration; and both as records that are kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Final

from typing_extensions import Self

from ...protocol.jsonrpc import is_array, is_object
from ...protocol.types import Json

VERSION: Final = 1
"""Of the records that are written. Those of the version before are read; those of later ones are left alone."""

_LATEST: Final = 1e12
"""Seconds since the epoch: in thirty thousand years."""


@dataclass(frozen=True)
class Tokens:
    """Tokens for one server, of one authorization server, to one client. No token is shown.

    Attributes:
        resource: The server that they are for: its resource identifier.
        issuer: The authorization server that has issued them.
        client_id: The client that they were issued to.
        access_token: What goes along with each request.
        refresh_token: What gets another one; None where there is none.
        token_type: `Bearer` or `DPoP`.
        expires: When the access token expires, in seconds since the epoch; None where nobody knows.
        scopes: What was granted.
        proof_key: The private key, as a JWK, that the tokens are bound to; None where they are not (RFC 9449).
    """

    resource: str
    issuer: str
    client_id: str
    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    token_type: str = "Bearer"
    expires: float | None = None
    scopes: frozenset[str] = frozenset()
    proof_key: Json | None = field(default=None, repr=False)

    def record(self) -> Json:
        """Return it as a record."""
        return {"version": VERSION, **asdict(self), "scopes": sorted(self.scopes)}

    @classmethod
    def read(cls, record: object) -> Self | None:
        """Return what a record says; None where it is none of tokens, or of a version that is not known."""
        if (fields := _readable(record)) is None:
            return None
        try:
            return cls(
                _text(fields, "resource"),
                _text(fields, "issuer"),
                _text(fields, "client_id"),
                _text(fields, "access_token"),
                _text_or_none(fields, "refresh_token"),
                _text(fields, "token_type"),
                _seconds_or_none(fields, "expires"),
                frozenset(_texts(fields, "scopes")),
                _object_or_none(fields, "proof_key"),
            )
        except _OddError:
            return None


@dataclass(frozen=True)
class Registration:
    """What an authorization server knows a client by. No secret is shown.

    Attributes:
        issuer: The authorization server.
        client_id: The client's id there, and nowhere else.
        secret: Its secret; None where it has none.
        method: How it says who it is at the token endpoint, such as `none` or `client_secret_basic`.
        redirect_uris: Where it may be answered.
        expires: When the secret expires, in seconds since the epoch; None for never.
    """

    issuer: str
    client_id: str
    secret: str | None = field(default=None, repr=False)
    method: str = "none"
    redirect_uris: tuple[str, ...] = ()
    expires: float | None = None

    def record(self) -> Json:
        """Return it as a record."""
        return {"version": VERSION, **asdict(self), "redirect_uris": list(self.redirect_uris)}

    @classmethod
    def read(cls, record: object) -> Self | None:
        """Return what a record says; None where it is none of a registration, or of a version that is not known."""
        if (fields := _readable(record)) is None:
            return None
        try:
            return cls(
                _text(fields, "issuer"),
                _text(fields, "client_id"),
                _text_or_none(fields, "secret"),
                _text(fields, "method"),
                tuple(_texts(fields, "redirect_uris")),
                _seconds_or_none(fields, "expires"),
            )
        except _OddError:
            return None


def is_newer(record: object) -> bool:
    """Say whether a later version of mcpkit has written a record, which then is not ours to replace."""
    version = record.get("version") if is_object(record) else None
    return type(version) is int and version > VERSION


def _readable(record: object) -> Json | None:
    """Return the fields of a record that this version reads."""
    version = record.get("version") if is_object(record) else None
    return (
        record if is_object(record) and type(version) is int and VERSION - 1 <= version <= VERSION else None
    )


class _OddError(ValueError):
    """A field of a record is not what it should be."""


def _text(fields: Json, name: str) -> str:
    text = fields.get(name)
    if type(text) is not str or not text:
        raise _OddError
    return text


def _text_or_none(fields: Json, name: str) -> str | None:
    return None if fields.get(name) is None else _text(fields, name)


def _texts(fields: Json, name: str) -> list[str]:
    texts = fields.get(name)
    if not is_array(texts) or not all(type(text) is str for text in texts):
        raise _OddError
    return texts


def _seconds_or_none(fields: Json, name: str) -> float | None:
    seconds = fields.get(name)
    if seconds is None:
        return None
    if type(seconds) not in {int, float} or not abs(seconds) < _LATEST:
        raise _OddError
    return float(seconds)


def _object_or_none(fields: Json, name: str) -> Json | None:
    value = fields.get(name)
    if value is not None and not is_object(value):
        raise _OddError
    return value
