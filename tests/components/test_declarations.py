"""What an author declares wrongly is refused where it stands, with what to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Icon, RegistrationError, Registry, Server, resource, tool

PICTURE: Icon = {"src": "https://shop.example/cart.png", "sizes": ["48x48"], "theme": "dark"}


def sell() -> str:
    return "sold"


@pytest.fixture
def server() -> Server:
    return Server("shop")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"icons": "https://shop.example/cart.png"}, "icons is a list"),
        ({"icons": ["https://shop.example/cart.png"]}, "icon: write a dict with src"),
        ({"icons": [{"url": "https://shop.example/cart.png"}]}, "unknown member 'url'"),
        ({"icons": [{"mimeType": "image/png"}]}, "'src' is missing"),
        ({"icons": [{"src": 3}]}, "src: expected a string, got 3"),
        ({"icons": [{**PICTURE, "sizes": "48x48"}]}, "sizes: expected an array"),
        ({"icons": [{**PICTURE, "theme": "blue"}]}, "theme: expected"),
        ({"icons": [{"src": "javascript:alert(1)"}]}, "https: or data:"),
        ({"icons": [{"src": "cart.png"}]}, "https: or data:"),
        ({"meta": {"a": object()}}, "meta has no form in JSON"),
        ({"meta": {1: 2}}, "keys are strings"),
        ({"meta": ["a"]}, "keys are strings"),
        ({"title": 3}, "title must be a string"),
        ({"description": b"text"}, "description must be a string"),
        ({"tags": "orders"}, "not one string"),
        ({"annotations": {"readOnlyHint": "yes"}}, "readOnlyHint: expected true or false"),
        ({"annotations": ["readOnlyHint"]}, "write a dict with title, readOnlyHint"),
        ({"nmae": "x"}, "no option nmae=; there are name, annotations"),
    ],
)
def test_a_wrong_option_of_a_tool_is_refused(server: Server, options: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        server.tool(sell, **options)
    assert len(server.tools) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mime_type": "png"}, "media type such as text/plain"),
        ({"mime_type": 3}, "media type such as text/plain"),
        ({"size": -1}, "number of bytes from 0"),
        ({"size": "3"}, "number of bytes from 0"),
        ({"annotations": {"audience": "user"}}, "audience: expected an array"),
        ({"annotation": {}}, "no option annotation="),
    ],
)
def test_a_wrong_option_of_a_resource_is_refused(server: Server, options: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        server.resource("shop://cart", **options)(sell)


def test_all_that_the_specification_has_is_taken(server: Server) -> None:
    server.tool(
        sell,
        title="Sell",
        icons=[PICTURE, {"src": "data:image/png;base64,AAAA"}],
        annotations={"readOnlyHint": False, "title": "Sell"},
        meta={"shop.example/team": ["orders", 3, None]},
        tags={"orders"},
    )
    assert server.tools["sell"].icons == [PICTURE, {"src": "data:image/png;base64,AAAA"}]


@pytest.mark.parametrize("uri", ["shop://two words", "shop://a<b", "shop://line\n", 'shop://"'])
def test_a_uri_with_what_must_be_escaped_is_refused(server: Server, uri: str) -> None:
    with pytest.raises(RegistrationError, match="percent-encoded"):
        server.resource(uri)(sell)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "name must be a string"),
        ({"name": "s", "version": 1.0}, "version must be a string"),
        ({"name": "s", "lifespan": 3}, "async context manager"),
    ],
)
def test_a_server_says_which_argument_is_wrong(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Server(**arguments)


def test_icons_of_a_server_are_checked_too() -> None:
    with pytest.raises(RegistrationError, match="icons is a list"):
        Server("s", icons="https://shop.example/cart.png")  # type: ignore[arg-type]  # on purpose


class Counter:
    @tool
    def sell(self) -> str:
        return "sold"

    @resource("shop://cart")
    def cart(self) -> str:
        return ""


@pytest.mark.parametrize("prefix", ["a b", "a/b", "p" * 124])
def test_a_prefix_cannot_make_a_name_that_breaks_the_rule(server: Server, prefix: str) -> None:
    with pytest.raises(RegistrationError, match="1 to 128"):
        server.include(Counter(), prefix=prefix)
    assert [len(part) for part in server.parts] == [0, 0, 0, 0, 0]
    followed = Registry()
    followed.tool(sell)
    with pytest.raises(RegistrationError, match="1 to 128"):
        server.include(followed, prefix=prefix)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        ("sell", "give a name as name="),
        (Counter, "Counter is a class"),
        (3, "3 is no function"),
    ],
)
def test_what_is_no_function_cannot_be_registered(server: Server, thing: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        server.tool(thing)
    with pytest.raises(RegistrationError, match=message):
        tool(thing)


def test_a_function_is_no_component(server: Server) -> None:
    with pytest.raises(RegistrationError, match=r"registered by tool\(\.\.\.\)"):
        server.tools.add(sell)  # type: ignore[arg-type]  # on purpose
