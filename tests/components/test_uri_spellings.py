"""Spellings of URIs, as clients write them: which name the same resource, and which do not.

The judges are what clients use: `AnyUrl` of pydantic, and `URL` of JavaScript.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from pydantic import AnyUrl, ValidationError

from mcpkit import Context, ProtocolError, Provider, RegistrationError, Resource, Server
from mcpkit.common.uris import normalized_template, spellings, template_spellings
from mcpkit.testing import Client, connect
from tests.helpers.node import node_search_path
from tests.helpers.uri_expansion import expand

pytestmark = pytest.mark.anyio

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))
REVISIONS = ("2025-11-25", "2026-07-28")
SCHEMES = ["notes", "file", "https", "http", "Data.x+y", "HTTPS", "ftp"]
HOSTS = [
    "",
    "café",
    "example.com",
    "Example.COM",
    "münchen.Example",
    "h:443",
    "h:80",
    "h:8080",
    "H:080",
    "u:p@h",
    "[::1]",
]
SEGMENTS = [
    "a",
    "B",
    "é",
    "%c3%A9",
    "crêpes",
    "%2F",
    "x%2fy",
    "日本",
    "ab:c",  # a single letter and a colon may be a drive of Windows
    "@",
    "~'()",
    "...",
    ".x",
    "",
    "%41",
]
QUERIES = ["", "", "", "?q=é", "?a='b'&c=%e2", "#frag", "?x#ü"]
VALUES = ["a", "Été", "A b", "x'y", "%", "日", "UPPER", "a&b=c"]


def drawn(draw: random.Random, schemes: list[str] = SCHEMES) -> str:
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


def template(draw: random.Random) -> tuple[str, dict[str, str]]:
    """Return a template and values of its variables; none of them makes a dot segment."""
    schemes = [each for each in SCHEMES if each != "ftp"]  # its hosts are literal there
    literal = drawn(draw, schemes).partition("?")[0].partition("#")[0].replace(":080", ":80")
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
        ran = subprocess.run(
            ["node", "-e", script],
            input=json.dumps(uris),
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PATH": node_search_path()},
        )
    except FileNotFoundError:
        return [None] * len(uris)
    found: list[str | None] = json.loads(ran.stdout)
    return found


def variants(uri: str, href: str | None) -> list[str]:
    """Return the spellings that clients may send of a URI."""
    found = {uri, *spelled_otherwise(uri)}
    if not re.search(r"(?i)/(\.|%2e){1,2}(?=[/?#]|$)", uri):
        found |= {href or uri, *spelled_otherwise(href or uri)}
        with suppress(ValidationError):
            found.add(str(AnyUrl(uri)))
    return sorted(found)


def spelled_otherwise(uri: str) -> set[str]:
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


async def read(client: Client, uri: str) -> Any:
    """Return the contents of a resource, or None where there is none."""
    try:
        [contents] = await client.read(uri)
    except ProtocolError as error:
        if "Resource not found" not in str(error):
            raise
        return None
    return contents


async def test_every_spelling_of_a_resource_reads_it_and_contents_have_the_spelling_of_the_client() -> None:
    uris = list(dict.fromkeys(drawn(random.Random(seed)) for seed in range(EXAMPLES)))
    hrefs = dict(zip(uris, javascript(uris), strict=True))
    server = Server("spellings")
    served: list[str] = []
    for uri in uris:
        try:
            server.resource(uri)(returning(uri))
        except RegistrationError as error:
            if "two spellings of one" not in str(error):
                raise
            continue
        served.append(uri)
    tried = 0
    for revision in REVISIONS:
        async with connect(server, revision=revision) as client:
            for uri in served:
                for spelled in variants(uri, hrefs[uri]):
                    contents = await read(client, spelled)
                    assert contents is not None, (uri, spelled, spellings(uri))
                    assert (contents["text"], contents["uri"]) == (uri, spelled)
                    tried += 1
    assert len(served) > len(uris) // 2
    assert tried > len(served) * 6


async def test_every_spelling_of_an_expanded_template_reads_it_with_the_same_values() -> None:
    drawn_templates = [template(random.Random(seed)) for seed in range(EXAMPLES)]
    uris = [expand(text, values) for text, values in drawn_templates]
    tried = 0
    for (text, _), uri, href in zip(drawn_templates, uris, javascript(uris), strict=True):
        server = Server("spellings")

        @server.resource(text)
        async def resource(one: str = "", two: str = "") -> list[str]:
            return [one, two]

        async with connect(server, revision=REVISIONS[tried % 2]) as client:
            expected = await read(client, uri)
            if expected is None:
                continue  # no value may stand there, as one that holds a slash
            for spelled in variants(uri, href):
                contents = await read(client, spelled)
                assert contents is not None, (text, uri, spelled)
                assert (contents["text"], contents["uri"]) == (expected["text"], spelled), (text, uri)
                tried += 1
    assert tried > EXAMPLES * 2


def returning(text: str) -> Callable[[], Awaitable[str]]:
    """Return a resource's function."""

    async def resource() -> str:
        return text

    return resource


@pytest.mark.parametrize(
    ("registered", "other"),
    [
        ("notes://a/b", "notes://a%2Fb"),
        ("notes://a/b%2Fc", "notes://a/b/c"),
        ("notes://a/b", "notes://a/x/../b"),
        ("notes://a/x/../b", "notes://a/b"),
        ("https://h/a/%2e%2e/b", "https://h/b"),
        ("notes://Host/a", "notes://host/a"),
        ("ftp://Host/a", "ftp://HOST/a"),
        ("file://Host/a", "file://HOST/a"),
        ("https://h/Docs", "https://h/docs"),
        ("https://h/a", "https://h/a/"),
        ("https://h:8080/", "https://h/"),
        ("https://h:80/", "https://h/"),
        ("http://user@h/", "http://USER@h/"),
        ("notes://caf\u00e9", "notes://cafe\u0301"),
        ("notes://a/A", "notes://a/%41"),
        ("notes://a", "notes://a/"),
        ("https://{host}.x/A", "https://h.x/a"),
    ],
)
async def test_what_names_something_else_is_not_found(registered: str, other: str) -> None:
    server = Server("spellings")
    if "{" in registered:
        server.resource(registered, name="page")(lambda host: host)
    else:
        server.resource(registered)(returning("found"))
    async with connect(server) as client:
        assert await read(client, other) is None


async def test_variables_keep_their_case_also_in_a_host() -> None:
    server = Server("spellings")

    @server.resource("https://{sub}.Example.com/caf\u00e9/{name}")
    def page(sub: str, name: str) -> str:
        return f"{sub} {name}"

    async with connect(server) as client:
        for uri in ("https://Sub.EXAMPLE.com/caf%c3%a9/N%c3%a4me", "HTTPS://Sub.example.com:443/café/Näme"):
            [contents] = await client.read(uri)
            assert (contents["uri"], contents["text"]) == (uri, "Sub Näme")


async def test_an_exact_match_comes_first() -> None:
    server = Server("spellings")
    server.resource("https://H/a")(returning("spelled alike"))

    @server.resource("https://h/{name}")
    def page(name: str) -> str:
        return f"exact {name}"

    async with connect(server) as client:
        assert (await client.read("https://h/a"))[0]["text"] == "exact a"
        assert (await client.read("https://H/a"))[0]["text"] == "spelled alike"
        server.resources.disable("https://H/a")
        assert (await client.read("HTTPS://h/a"))[0]["text"] == "exact a"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("notes://café", "notes://caf%c3%a9"),
        ("https://Example.com", "https://example.com/"),
        ("https://h:443/é", "https://h/%C3%A9"),
        ("HTTP://{host}", "http://{host}/"),
        ("notes://é/{Name}", "notes://%C3%A9/{Name}"),
    ],
)
def test_a_second_one_that_is_spelled_alike_is_refused_until_the_first_is_gone(
    first: str, second: str
) -> None:
    server = Server("spellings")

    def add(uri: str) -> None:
        names = re.findall(r"\{(\w+)\}", uri)
        source = f"def function({', '.join(f'{name}: str' for name in names)}) -> str: ..."
        made: dict[str, Any] = {}
        exec(source, made)  # its parameters are the template's variables
        server.resource(uri)(made["function"])

    add(first)
    with pytest.raises(RegistrationError, match=f"'{re.escape(first)}'.* are two spellings of one"):
        add(second)
    part = server.resource_templates if "{" in first else server.resources
    part.remove(first)
    add(second)


async def test_every_spelling_is_subscribed_and_updates_have_the_spelling_of_the_client() -> None:
    server = Server("spellings")
    for uri in ("notes://x/café", "https://Example.com"):
        server.resource(uri)(returning(""))

    @server.resource("notes://t/é/{name}")
    def item(name: str) -> str:
        return name

    asked = ["notes://x/caf%c3%a9", "https://EXAMPLE.com/", "notes://t/%c3%A9/N", "notes://t/%C3%A9/{name}"]
    for revision in REVISIONS:
        async with connect(server, revision=revision) as client, client.watch(resources=asked) as changes:
            heard: list[str | None] = []
            for uri in ("notes://x/café", "https://Example.com", "notes://t/é/N", "notes://t/é/other"):
                server.resource_updated(uri)
                heard.append((await anext(changes)).uri)
            assert heard == [*asked[:3], "notes://t/é/other"]


async def test_a_template_completes_under_every_spelling() -> None:
    server = Server("spellings")

    @server.resource("file:///café/{name}", complete={"name": ["Oslo"]})
    def item(name: str) -> str:
        return name

    async with connect(server) as client:
        for spelled in template_spellings("file:///café/{name}"):
            ref = {"type": "ref/resource", "uri": spelled}
            params = {"ref": ref, "argument": {"name": "name", "value": "O"}}
            completion = (await client.request("completion/complete", params))["completion"]
            assert completion["values"] == ["Oslo"], spelled
        assert await client.complete("FILE:///caf%c3%a9/{name}", "name", "O") == ["Oslo"]


async def test_what_a_provider_lists_is_read_under_every_spelling() -> None:
    uris = ["notes://café", "https://Example.com"]

    class Shelf(Provider):
        kinds = frozenset({"resources"})

        async def list(self, kind: str, ctx: Context) -> Any:
            return [Resource(returning(uri), uri) for uri in uris]

        async def find(self, kind: str, key: str, ctx: Context) -> Any:
            return Resource(returning(key), key) if key in uris else None

    server = Server("spellings")
    server.include(Shelf())
    async with connect(server) as client:
        for uri in uris:
            for spelled in variants(uri, None):
                contents = await read(client, spelled)
                assert contents is not None, spelled
                assert (contents["text"], contents["uri"]) == (uri, spelled)
        assert await read(client, "notes://Caf%C3%A9") is None


@pytest.mark.parametrize(
    "uri",
    [
        pytest.param("https://" + "".join(chr(0x4E00 + i % 20_000) for i in range(50_000)), id="host"),
        pytest.param("x://" + "{}" * 100_000, id="braces"),
    ],
)
def test_a_long_uri_of_a_client_is_normalized_in_linear_time(uri: str) -> None:
    began = time.process_time()
    assert normalized_template(uri)
    assert time.process_time() - began < 5  # in quadratic time both would take minutes


def test_control_characters_of_a_client_are_no_expressions() -> None:
    assert normalized_template("X://a/\x02" + "9" * 5000 + "\x02{b}") == "x://a/\x02" + "9" * 5000 + "\x02{b}"
