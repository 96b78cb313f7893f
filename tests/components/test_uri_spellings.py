"""Spellings of URIs that clients send: those that name the same resource, as pydantic and JavaScript write them."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import AnyUrl

from mcpkit import ProtocolError, RegistrationError, Server
from mcpkit.testing import TestClient, connect
from tests.helpers.tables import each_row
from tests.helpers.uri_expansion import expand

REVISIONS = ("2025-11-25", "2026-07-28")


def variants(uri: str) -> list[str]:
    """Return the spellings that clients may send of a URI, that of pydantic among them."""
    url = str(AnyUrl(uri))
    return sorted({uri, url, *other_spellings(uri), *other_spellings(url)})


def other_spellings(uri: str) -> set[str]:
    """Return a URI with escapes, scheme and, of http and https, host in either case."""
    scheme, separator, rest = uri.partition("://")
    small, large = (re.sub("%..", lambda each: change(each[0]), uri) for change in (str.lower, str.upper))
    found = {large, small, f"{scheme.upper()}{separator}{rest}", f"{scheme.lower()}{separator}{rest}"}
    if scheme.lower() in ("http", "https"):
        end = re.search(r"[/?#]|\Z", rest)
        assert end is not None
        host = rest[: end.start()].rpartition("@")[2]
        found.add(uri.replace(host, host.upper(), 1) if host.isascii() else uri)
    return found


async def read(client: TestClient, uri: str) -> Any:
    """Return text and URI of a resource, or None where there is none."""
    try:
        [contents] = await client.read_resource(uri)
    except ProtocolError as error:
        if "Resource not found" not in str(error):
            raise
        return None
    return contents["text"], contents["uri"]


URIS = [
    "notes://", "notes://café/é?q=é", "Data.x+y://Example.COM/B/%2F#frag", "HTTPS://münchen.Example/é/%c3%A9",
    "https://Example.COM", "https://h:443/crêpes/日本?a='b'&c=%e2", "http://h:8080/x%2fy/~'()", "http://u:p@h/ab:c",
    "http://[::1]/@/...", "file:///a/B/é", "file://server/.x/%41?x#ü", "ftp://h/a//b", "notes://h:80/a",
]  # fmt: skip


async def test_uri_spelling_of_resource_is_read() -> None:
    server = Server("spellings")
    for uri in URIS:
        server.resource(uri)(make_function(uri))
    for revision in REVISIONS:
        async with connect(server, protocol_version=revision) as client:
            for uri in URIS:
                for spelled in variants(uri):
                    assert await read(client, spelled) == (uri, spelled)


@each_row(("template", "values"), [
    ("notes://café/{one}", {"one": "Été"}), ("HTTPS://Example.com/{one}/{two}", {"one": "A b", "two": "x'y"}),
    ("file:///a/É-{one}.TXT", {"one": "日"}), ("https://münchen.Example/x{/one}", {"one": "UPPER"}),
    ("http://h:80/{+one}", {"one": "a/b"}), ("Data.x+y://h/x{?one,two}", {"one": "%", "two": "a&b=c"}),
    ("notes://h:8080/{one}#é", {"one": "a"}),
])  # fmt: skip
async def test_uri_spelling_of_template_is_read(template: str, values: dict[str, str]) -> None:
    uri = expand(template, values)
    server = Server("spellings")

    @server.resource(template)
    async def resource(one: str = "", two: str = "") -> list[str]:
        return [one, two]

    async with connect(server) as client:
        pair = [values["one"], values.get("two", "")]
        expected = json.dumps(pair, ensure_ascii=False, separators=(",", ":"))
        for spelled in variants(uri):
            assert await read(client, spelled) == (expected, spelled)


def make_function(text: str) -> Callable[[], Awaitable[str]]:
    """Return a resource's function."""

    async def resource() -> str:
        return text

    return resource


@each_row(("registered", "other"), [
    ("notes://a/b", "notes://a%2Fb"), ("notes://a/b%2Fc", "notes://a/b/c"),
    ("notes://a/b", "notes://a/x/../b"), ("notes://a/x/../b", "notes://a/b"),
    ("https://h/a/%2e%2e/b", "https://h/b"), ("notes://Host/a", "notes://host/a"),
    ("ftp://Host/a", "ftp://HOST/a"), ("file://Host/a", "file://HOST/a"),
    ("https://h/Docs", "https://h/docs"), ("https://h/a", "https://h/a/"), ("https://h:80/", "https://h/"),
    ("http://user@h/", "http://USER@h/"), ("notes://caf\u00e9", "notes://cafe\u0301"),
    ("notes://a/A", "notes://a/%41"), ("notes://a", "notes://a/"), ("https://{host}.x/A", "https://h.x/a"),
])  # fmt: skip
async def test_uri_other_resource_is_not_found(registered: str, other: str) -> None:
    server = Server("spellings")
    server.resource(registered, name="page")((lambda host: host) if "{" in registered else (lambda: "found"))
    async with connect(server) as client:
        assert await read(client, other) is None


@each_row(("first", "second", "function"), [
    ("notes://café", "notes://caf%c3%a9", lambda: ""), ("https://Example.com", "https://example.com/", lambda: ""),
    ("https://h:443/é", "https://h/%C3%A9", lambda: ""), ("HTTP://{host}", "http://{host}/", lambda host: ""),
    ("notes://é/{Name}", "notes://%C3%A9/{Name}", lambda Name: ""),
])  # fmt: skip
def test_uri_duplicate_spelling_is_refused(first: str, second: str, function: Any) -> None:
    server = Server("spellings")
    server.resource(first, name="first")(function)
    with pytest.raises(RegistrationError, match=f"'{re.escape(first)}'.* are two spellings of the same URI"):
        server.resource(second, name="second")(function)
    part = server.catalog.resource_templates if "{" in first else server.catalog.resources
    part.remove(first)
    server.resource(second, name="second")(function)


async def test_uri_spelling_in_subscription() -> None:
    server = Server("spellings")
    for uri in ("notes://x/café", "https://Example.com"):
        server.resource(uri)(make_function(""))

    @server.resource("notes://t/é/{name}")
    def item(name: str) -> str:
        return name

    watched = ["notes://x/caf%c3%a9", "https://EXAMPLE.com/", "notes://t/%c3%A9/N", "notes://t/%C3%A9/{name}"]
    for revision in REVISIONS:
        async with (
            connect(server, protocol_version=revision) as client,
            client.listen(resource_subscriptions=watched) as changes,
        ):
            received: list[str | None] = []
            for uri in ("notes://x/café", "https://Example.com", "notes://t/é/N", "notes://t/é/other"):
                server.notify_resource_updated(uri)
                received.append((await anext(changes)).uri)
            assert received == [*watched[:3], "notes://t/é/other"]
