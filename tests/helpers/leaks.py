"""Finds secrets in bytes, however they are written there: encoded, compressed, and both."""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote, quote_plus

_LONG = 48
"""Characters of a secret of which a half is looked for as well: logs cut what is long."""
_ENCODED = re.compile(rb"[A-Za-z0-9+/_-]{24,}")
_HEX = re.compile(rb"(?:[0-9A-Fa-f]{2}){16,}")
_COMPRESSED = re.compile(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08")
_DEEP = 3
"""How many encodings around each other are seen through."""
_MOST = 1 << 20


def found(data: bytes, secrets: Mapping[str, Sequence[str]]) -> set[str]:
    """Return the kinds of those secrets that stand in some bytes, and in which form."""
    told: set[str] = set()
    wanted = [(kind, name, form) for kind, each in secrets.items() for name, form in _wanted(each)]
    for layer in _layers(data, _DEEP):
        told |= {f"{kind}: {name}" for kind, name, form in wanted if form in layer}
    return told


def _wanted(secrets: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for secret in dict.fromkeys(secrets):
        for piece in _pieces(secret):
            yield from forms(piece.encode())


def _pieces(secret: str) -> Iterator[str]:
    """A secret, or where it is long or a JWT what nobody else's begins with."""
    *_, signature = secret.rpartition(".")
    if secret.startswith("eyJ"):
        payload = secret.split(".")[1]
        yield payload[len(payload) // 2 :][:_LONG]
        yield signature[:_LONG]
    elif len(secret) >= _LONG:
        yield secret[: _LONG // 2]
        yield secret[-_LONG // 2 :]
    else:
        yield secret


def forms(secret: bytes) -> Iterator[tuple[str, bytes]]:
    """Go through the ways in which a secret may be written, each with its name."""
    text = secret.decode()
    yield "raw", secret
    yield "reversed", secret[::-1]
    yield "hex", secret.hex().encode()
    yield "HEX", secret.hex().upper().encode()
    yield "UTF-16", text.encode("utf-16-le")
    for encoded in {quote(text, safe=""), quote_plus(text), quote(text, safe="").lower()} - {text}:
        yield "URL", encoded.encode()
    for written in {json.dumps(text)[1:-1], text.replace("/", "\\/")} - {text}:
        yield "JSON", written.encode()
    for shift in range(3):
        # What stands before it moves it, and what stands at its edges is mixed with its neighbours.
        first = (8 * shift + 5) // 6 if shift else 0
        length = (8 * (shift + len(secret))) // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield f"base64, {shift}", encode(bytes(shift) + secret)[first:length]


def _layers(data: bytes, deep: int) -> Iterator[bytes]:
    """Some bytes, and what is in them when they are decoded."""
    yield data
    if not deep:
        return
    for match in _COMPRESSED.finditer(data):
        inflated = _inflated(data[match.start() : match.start() + _MOST])
        if inflated:
            yield from _layers(inflated, deep - 1)
    for match in _HEX.finditer(data):
        yield from _inner(binascii.unhexlify(match[0]), deep)
    for match in _ENCODED.finditer(data):
        for start in range(4):
            text = match[0][start:].translate(bytes.maketrans(b"-_", b"+/"))
            whole = text[: len(text) - (len(text) % 4 == 1)]
            yield from _inner(base64.b64decode(whole + b"=" * (-len(whole) % 4)), deep)


def _inner(data: bytes, deep: int) -> Iterator[bytes]:
    """What was decoded, where it may be something: what is compressed, or a text that may hold more."""
    if data.isascii() or _COMPRESSED.search(data):
        yield from _layers(data, deep - 1)


def _inflated(data: bytes) -> bytes:
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        return inflater.decompress(data, _MOST)
    except zlib.error:
        return b""
