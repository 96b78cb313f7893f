"""Spellings of URIs that name the same resource.

Clients turn a URI into a URL before they send it: `new URL(uri).href` in JavaScript, `AnyUrl` of pydantic. Equal are

- characters outside ASCII and their percent-encoding in UTF-8 (RFC 3987, 3.1), and `%c3` and `%C3` (RFC 3986, 6.2.2.1);
- schemes in either case, and for http and https hosts, which may also be in punycode;
- of http and its like, a port that is empty or the scheme's own, and none; an empty path, and `/`;
- a whole URI, and the URL that pydantic makes of it.

No dot segment is removed, no other character is decoded, so that `%2F` never equals `/`, and no path is normalized in
Unicode.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pydantic_core import Url

# The schemes that the URL standard calls special, with their ports.
_DEFAULT_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "file": ""}

_CASELESS_HOSTS: Final = ("http", "https")
_WHOLE: Final = r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*))?([^?#]*)((?:\?[^#]*)?)(.*)"
_AUTHORITY: Final = r"((?:.*@)?)(\[[^\]]*\]|.*?)((?::[0-9]*)?)"
_ESCAPE: Final = "%[0-9A-Fa-f]{2}"
_NOT_ASCII: Final = r"[^\x00-\x7f]+"
_NOT_ASCII_ESCAPES: Final = "(?:%[89A-Fa-f][0-9A-Fa-f])+"
_DOT_SEGMENT: Final = r"(?i)[:/](?:\.|%2e){1,2}(?=[/?#]|\Z)"
_EXPRESSION: Final = r"\{([+#./;?&]?)[^{}]*\}"
_FENCE: Final = "\x02"
_FENCED: Final = "([/?#]?)\x02([0-9]+)\x02"
# Longer hosts do not exist in DNS, and punycode takes time that grows with the square of their length.
_LONGEST_HOST: Final = 255


def in_ascii(uri: str) -> str:
    """Percent-encode the characters outside ASCII.

    Raises:
        UnicodeEncodeError: There is a lone surrogate.
    """
    if uri.isascii():
        return uri
    return re.sub(_NOT_ASCII, lambda found: "%" + found[0].encode().hex("%").upper(), uri)


def normalized(uri: str) -> str:
    """Return the normalized spelling of a URI, which all equivalent URIs have in common."""
    return normalized_twice(uri)[0]


def normalized_twice(uri: str) -> tuple[str, str]:
    """Return a URI normalized, and the same with the letters of its host as they were, for variables in it."""
    found = re.fullmatch(_WHOLE, uri, re.DOTALL)
    try:
        if found is None:
            text = _with_large_escapes(in_ascii(uri))
            return text, text
        scheme, authority, path, query, fragment = found.groups()
        scheme = scheme.lower()
        is_special = scheme in _DEFAULT_PORTS
        kept = small = ""
        if scheme == "file" and path.startswith("/"):
            authority = authority or ""  # `file:/a` is `file:///a`
        if authority is not None:
            user, host, port = _groups(_AUTHORITY, authority)
            if is_special:
                number = port[1:].lstrip("0") or port[1:2]
                port = f":{number}" if number and number != _DEFAULT_PORTS[scheme] else ""
            if scheme in _CASELESS_HOSTS:
                host = re.sub(
                    _NOT_ASCII_ESCAPES, lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), host
                )
                if len(host) <= _LONGEST_HOST:
                    host = ".".join(map(_in_punycode, host.split(".")))
            user, host = (_with_large_escapes(in_ascii(each)) for each in (user, host))
            kept = f"//{user}{host}{port}"
            small = f"//{user}{host.lower()}{port}" if scheme in _CASELESS_HOSTS else kept
            if is_special and not path:
                path = "/"
        if is_special:
            query = query.replace("'", "%27")
        rest = _with_large_escapes(in_ascii(f"{path}{query}{fragment}"))
    except UnicodeError:  # no client can have made a URL of it
        return uri, uri
    return f"{scheme}:{small}{rest}", f"{scheme}:{kept}{rest}"


@lru_cache(1024)
def spellings(uri: str) -> tuple[str, ...]:
    """Return the normalized forms of a URI and of the URL that clients make of it."""
    own = normalized(uri)
    if re.search(_DOT_SEGMENT, uri):  # which clients remove, and which may then name something else
        return (own,)
    try:
        url = normalized(str(Url(uri)))
    except ValueError:
        return (own,)
    return (own,) if url == own else (own, url)


@lru_cache(1024)
def template_spellings(template: str) -> tuple[str, ...]:
    """Return the same for a URI template, of which only the literal parts are normalized."""
    return tuple(dict.fromkeys((normalized_template(template), *spellings(template)[1:])))


def normalized_template(template: str) -> str:
    """Return a URI template with its literal parts normalized."""
    if _FENCE in template:  # which no template may hold
        return normalized(template)
    expressions: list[tuple[str, str]] = []

    def fenced(found: re.Match[str]) -> str:
        # An expression that begins the path, the query or the fragment ends the authority before it.
        begins = {"/": "/", "+": "/", "?": "?", "#": "#"}.get(found[1], "")
        expressions.append((begins, found[0]))
        return f"{begins}{_FENCE}{len(expressions) - 1}{_FENCE}"

    def restored(found: re.Match[str]) -> str:
        begins, expression = expressions[int(found[2])]
        return found[1].removesuffix(begins) + expression

    return re.sub(_FENCED, restored, normalized(re.sub(_EXPRESSION, fenced, template)))


def _groups(pattern: str, text: str) -> tuple[str, ...]:
    found = re.fullmatch(pattern, text, re.DOTALL)
    assert found is not None, "the pattern matches any text"
    return found.groups()


def _with_large_escapes(text: str) -> str:
    return re.sub(_ESCAPE, lambda found: found[0].upper(), text) if "%" in text else text


def _in_punycode(label: str) -> str:
    """Return a label of a host as the URL standard writes it (UTS 46)."""
    if label.isascii():
        return label
    import unicodedata  # which few servers need

    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", label).lower())
    return text if text.isascii() else f"xn--{text.encode('punycode').decode('ascii')}"
