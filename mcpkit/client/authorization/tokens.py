"""Tokens and client registrations, and their records in a storage."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Final

from typing_extensions import Self

from ...protocol.jsonrpc import Json, is_array, is_object

VERSION: Final = 1
"""The version of new records. Records of the version before are read, and later ones are left unchanged."""

_LATEST: Final = 1e12
"""The largest time in seconds since the epoch, thirty thousand years away."""


@dataclass(frozen=True)
class Tokens:
    """Tokens for one server, issued by one authorization server to one client. Their `repr` contains no token.

    Attributes:
        resource: The resource identifier of the server.
        issuer: The authorization server.
        client_id: The client id.
        access_token: The access token.
        refresh_token: The refresh token; None if there is none.
        token_type: `Bearer` or `DPoP`.
        expires: The expiry of the access token in seconds since the epoch; None if unknown.
        scopes: The granted scopes.
        proof_key: The private key, as a JWK, that the tokens are bound to; None for bearer tokens (RFC 9449).
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
        """Return the record of the tokens."""
        return {"version": VERSION, **asdict(self), "scopes": sorted(self.scopes)}

    @classmethod
    def read(cls, record: object) -> Self | None:
        """Return the tokens of a record; None if it is not a token record, or of an unknown version."""
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
    """The registration of a client at an authorization server. Its `repr` contains no secret.

    Attributes:
        issuer: The authorization server.
        client_id: The client id, valid at this authorization server only.
        secret: The client secret; None if there is none.
        method: The `token_endpoint_auth_method`, such as `none` or `client_secret_basic`.
        redirect_uris: The redirect URIs.
        expires: The expiry of the secret in seconds since the epoch; None for never.
    """

    issuer: str
    client_id: str
    secret: str | None = field(default=None, repr=False)
    method: str = "none"
    redirect_uris: tuple[str, ...] = ()
    expires: float | None = None

    def record(self) -> Json:
        """Return the record of the registration."""
        return {"version": VERSION, **asdict(self), "redirect_uris": list(self.redirect_uris)}

    @classmethod
    def read(cls, record: object) -> Self | None:
        """Return the registration of a record; None if it is not one, or of an unknown version."""
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
    """Return whether a later version of mcpkit wrote a record, so that it must not be replaced."""
    version = record.get("version") if is_object(record) else None
    return type(version) is int and version > VERSION


def _readable(record: object) -> Json | None:
    """Return a record if this version can read it, and None otherwise."""
    version = record.get("version") if is_object(record) else None
    return (
        record if is_object(record) and type(version) is int and VERSION - 1 <= version <= VERSION else None
    )


class _OddError(ValueError):
    """A field of a record is invalid."""


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
