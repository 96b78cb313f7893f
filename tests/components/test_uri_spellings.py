"""Spellings of URIs that clients send: those that name the same resource, as pydantic and JavaScript write them."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from pydantic import AnyUrl, ValidationError

from mcpkit import ProtocolError, RegistrationError, Server
from mcpkit.common.uris import spellings
from mcpkit.testing import TestClient, connect
from tests.helpers.node import node_search_path
from tests.helpers.tables import each_row
from tests.helpers.uri_expansion import expand

pytestmark = [pytest.mark.anyio, pytest.mark.long]


EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "50"))


REVISIONS = ("2025-11-25", "2026-07-28")


SCHEMES = ["notes", "file", "https", "http", "Data.x+y", "HTTPS", "ftp"]


HOSTS = [
    "", "café", "example.com", "Example.COM", "münchen.Example", "h:443", "h:80", "h:8080", "H:080", "u:p@h",
    "[::1]",
]  # fmt: skip


SEGMENTS = [
    "a", "B", "é", "%c3%A9", "crêpes", "%2F", "x%2fy", "日本", "ab:c",
    # a single letter and a colon may be a drive of Windows
    "@", "~'()", "...", ".x", "", "%41",
]  # fmt: skip


QUERIES = ["", "", "", "?q=é", "?a='b'&c=%e2", "#frag", "?x#ü"]


VALUES = ["a", "Été", "A b", "x'y", "%", "日", "UPPER", "a&b=c"]


def random_uri(draw: random.Random, schemes: list[str] = SCHEMES) -> str:
    """Return a URI as an author may write it."""
    scheme = draw.choice(schemes)
    host = draw.choice(HOSTS)
    if scheme.lower() in ("http", "https", "ftp"):
        host = host or "h"
    elif scheme == "file":
        host = draw.choice(["", "server"])  # JavaScript refuses ports there
    path = "".join(f"/{draw.choice(SEGMENTS)}" for _ in range(draw.randrange(4)))
    if scheme == "file":
        path = re.sub("/+", "/", path) or "/x"  # of which pydantic removes empty segments
    return f"{scheme}://{host}{path}{draw.choice(QUERIES)}"


def random_template(draw: random.Random) -> tuple[str, dict[str, str]]:
    """Return a random_template and values of its variables; none of them makes a dot segment."""
    schemes = [each for each in SCHEMES if each != "ftp"]  # its hosts are literal there
    literal = random_uri(draw, schemes).partition("?")[0].partition("#")[0].replace(":080", ":80")
    kinds = [
        "/{one}",
        "/{one}/{two}",
        "/É-{one}.TXT",
        "{/one}",
        "/{+one}",
        "{?one,two}",
        "/x{?one}",
        "/{one}#é",
    ]
    literal = literal.removesuffix("/") if not literal.endswith("//") else literal + "x"
    return literal + draw.choice(kinds), {name: draw.choice(VALUES) for name in ("one", "two")}


def javascript(uris: list[str]) -> list[str | None]:
    """Return what `new URL(uri).href` makes of each; None of what it refuses, or where there is no Node."""
    script = """
        let text = ""
        process.stdin.on("data", data => text += data).on("end", () => {
            const href = uri => { try { return new URL(uri).href } catch { return null } }
            console.log(JSON.stringify(JSON.parse(text).map(href)))
        })
    """
    try:
        ran = subprocess.run(["node", "-e", script], input=json.dumps(uris), capture_output=True, text=True,
            check=True, env={**os.environ, "PATH": node_search_path()})  # fmt: skip
    except FileNotFoundError:
        return [None] * len(uris)
    found: list[str | None] = json.loads(ran.stdout)
    return found


def variants(uri: str, href: str | None) -> list[str]:
    """Return the spellings that clients may send of a URI."""
    found = {uri, *other_spellings(uri)}
    if not re.search(r"(?i)/(\.|%2e){1,2}(?=[/?#]|$)", uri):
        found |= {href or uri, *other_spellings(href or uri)}
        with suppress(ValidationError):
            found.add(str(AnyUrl(uri)))
    return sorted(found)


def other_spellings(uri: str) -> set[str]:
    """Return a URI with escapes, scheme and, of http and https, host in either case."""
    scheme, separator, rest = uri.partition("://")
    large, small = (
        re.sub("%..", lambda found: getattr(found[0], case)(), uri) for case in ("upper", "lower")
    )
    found = {large, small, f"{scheme.upper()}{separator}{rest}", f"{scheme.lower()}{separator}{rest}"}
    if scheme.lower() in ("http", "https"):
        end = re.search(r"[/?#]|\Z", rest)
        assert end is not None
        host = rest[: end.start()].rpartition("@")[2]
        found.add(uri.replace(host, host.upper(), 1) if host.isascii() else uri)
    return found


async def read(client: TestClient, uri: str) -> Any:
    """Return the contents of a resource, or None where there is none."""
    try:
        [contents] = await client.read_resource(uri)
    except ProtocolError as error:
        if "Resource not found" not in str(error):
            raise
        return None
    return contents


async def test_uri_spelling_of_resource_is_read() -> None:
    uris = list(dict.fromkeys(random_uri(random.Random(seed)) for seed in range(EXAMPLES)))
    hrefs = dict(zip(uris, javascript(uris), strict=True))
    server = Server("spellings")
    served: list[str] = []
    for uri in uris:
        try:
            server.resource(uri)(make_function(uri))
        except RegistrationError as error:
            if "two spellings of one" not in str(error):
                raise
            continue
        served.append(uri)
    tried = 0
    for revision in REVISIONS:
        async with connect(server, protocol_version=revision) as client:
            for uri in served:
                for spelled in variants(uri, hrefs[uri]):
                    contents = await read(client, spelled)
                    assert contents is not None, (uri, spelled, spellings(uri))
                    assert (contents["text"], contents["uri"]) == (uri, spelled)
                    tried += 1
    assert len(served) > len(uris) // 2
    assert tried > len(served) * 6


async def test_uri_spelling_of_template_is_read() -> None:
    drawn_templates = [random_template(random.Random(seed)) for seed in range(EXAMPLES)]
    uris = [expand(text, values) for text, values in drawn_templates]
    tried = 0
    for (text, _), uri, href in zip(drawn_templates, uris, javascript(uris), strict=True):
        server = Server("spellings")

        @server.resource(text)
        async def resource(one: str = "", two: str = "") -> list[str]:
            return [one, two]

        async with connect(server, protocol_version=REVISIONS[tried % 2]) as client:
            expected = await read(client, uri)
            if expected is None:
                continue  # no value may stand there, as one that holds a slash
            for spelled in variants(uri, href):
                contents = await read(client, spelled)
                assert contents is not None, (text, uri, spelled)
                assert (contents["text"], contents["uri"]) == (expected["text"], spelled), (text, uri)
                tried += 1
    assert tried > EXAMPLES * 2


def make_function(text: str) -> Callable[[], Awaitable[str]]:
    """Return a resource's function."""

    async def resource() -> str:
        return text

    return resource


@each_row(
    ("registered", "other"),
    [
        ("notes://a/b", "notes://a%2Fb"), ("notes://a/b%2Fc", "notes://a/b/c"),
        ("notes://a/b", "notes://a/x/../b"), ("notes://a/x/../b", "notes://a/b"),
        ("https://h/a/%2e%2e/b", "https://h/b"), ("notes://Host/a", "notes://host/a"),
        ("ftp://Host/a", "ftp://HOST/a"), ("file://Host/a", "file://HOST/a"),
        ("https://h/Docs", "https://h/docs"), ("https://h/a", "https://h/a/"),
        ("https://h:8080/", "https://h/"), ("https://h:80/", "https://h/"),
        ("http://user@h/", "http://USER@h/"), ("notes://caf\u00e9", "notes://cafe\u0301"),
        ("notes://a/A", "notes://a/%41"), ("notes://a", "notes://a/"), ("https://{host}.x/A", "https://h.x/a"),
    ],
)  # fmt: skip
async def test_uri_other_resource_is_not_found(registered: str, other: str) -> None:
    server = Server("spellings")
    if "{" in registered:
        server.resource(registered, name="page")(lambda host: host)
    else:
        server.resource(registered)(make_function("found"))
    async with connect(server) as client:
        assert await read(client, other) is None


@each_row(
    ("first", "second"),
    [
        ("notes://café", "notes://caf%c3%a9"), ("https://Example.com", "https://example.com/"),
        ("https://h:443/é", "https://h/%C3%A9"), ("HTTP://{host}", "http://{host}/"),
        ("notes://é/{Name}", "notes://%C3%A9/{Name}"),
    ],
)  # fmt: skip
def test_uri_duplicate_spelling_is_refused(first: str, second: str) -> None:
    server = Server("spellings")

    def add(uri: str) -> None:
        names = re.findall(r"\{(\w+)\}", uri)
        source = f"def function({', '.join(f'{name}: str' for name in names)}) -> str: ..."
        made: dict[str, Any] = {}
        exec(source, made)  # its parameters are the template's variables
        server.resource(uri)(made["function"])

    add(first)
    with pytest.raises(RegistrationError, match=f"'{re.escape(first)}'.* are two spellings of the same URI"):
        add(second)
    part = server.catalog.resource_templates if "{" in first else server.catalog.resources
    part.remove(first)
    add(second)


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
