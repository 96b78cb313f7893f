from __future__ import annotations

import base64
import re
import string
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from mcpkit.protocol.eras import Client, Handshake
from mcpkit.state.keys import Keys
from mcpkit.state.memory import Memory
from mcpkit.transports.http.sessions.token import MAX_LENGTH, SessionToken, issue, read

SECRET = "the secret of the weather station"
KEYS = Keys(SECRET, "weather")
NOW = 1_800_000_000.0
ALPHABET = string.ascii_letters + string.digits + "-_"
VISIBLE_ASCII = re.compile(r"[\x21-\x7e]+")

# The largest set of capabilities that the handshake revisions define.
STANDARD: dict[str, Any] = {
    "roots": {"listChanged": True},
    "sampling": {"context": {}, "tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
}


def token(
    info: dict[str, Any] | None = None, capabilities: dict[str, Any] | None = None, **changes: Any
) -> SessionToken:
    return SessionToken(
        id="q83vEjRWeJCrze8SNFZ4kA",
        home=Memory().home,
        revision="2025-11-25",
        client=Client(info or {"name": "test", "version": "1"}, capabilities or {}),
        lists=frozenset({"tools", "resources"}),
        expires=NOW + 86400,
    )._replace(**changes)


def said(token: SessionToken | None) -> tuple[Any, ...] | None:
    """All that a token says, comparable: a Client is equal to itself only."""
    return token and (*token._replace(client=None), token.client.info, token.client.capabilities)


def passed_on(token: SessionToken) -> SessionToken:
    text = issue(KEYS, token)
    assert len(text) <= MAX_LENGTH == 1024
    assert VISIBLE_ASCII.fullmatch(text)
    returned = read(KEYS, text, NOW)
    assert returned is not None
    return returned


@pytest.mark.parametrize("lists", [[], ["tools"], ["tools", "prompts", "resources"]])
@pytest.mark.parametrize("principal", [None, "", "ada@example.com", "Åsa", 'a"\\\n'])
def test_what_is_issued_is_read_in_another_process(lists, principal):
    given_ = token(
        {"name": "inspector", "version": "0.17", "title": "Der Prüfer", "websiteUrl": "https://example.com"},
        STANDARD | {"experimental": {"x": {"y": [1, 2.5, None]}}, "extensions": {"com.example/ui": {}}},
        lists=frozenset(lists),
        principal=principal,
    )
    text = issue(KEYS, given_)
    assert said(read(Keys(SECRET, "weather"), text, NOW)) == said(given_)


def test_a_common_client_makes_a_short_id():
    common = token({"name": "claude-code", "version": "2.0.1"}, {"roots": {"listChanged": True}})
    assert len(issue(KEYS, common)) < 320


def test_it_expires_exactly():
    text = issue(KEYS, token(expires=NOW + 0.5))
    assert read(KEYS, text, NOW + 0.499) is not None
    assert read(KEYS, text, NOW + 0.5) is None
    assert read(KEYS, text, NOW + 1e9) is None


# What we did not sign


@pytest.mark.parametrize(
    "keys",
    [
        Keys("another secret of the station", "weather"),
        Keys(["another secret of the station", SECRET + "!"], "weather"),
        Keys(SECRET, "Weather"),
        Keys(SECRET, ""),
    ],
    ids=["secret", "secrets", "name", "no name"],
)
def test_another_secret_or_server_refuses_it(keys):
    assert read(keys, issue(KEYS, token()), NOW) is None


def test_a_replaced_secret_is_still_read():
    rotated = Keys(["the new secret of the station", SECRET], "weather")
    given_ = token()
    assert said(read(rotated, issue(KEYS, given_), NOW)) == said(given_)
    assert read(KEYS, issue(rotated, given_), NOW) is None


def test_what_was_signed_for_another_purpose_is_refused():
    payload = base64.urlsafe_b64decode(issue(KEYS, token()))[32:]
    for purpose in ["", "session id", "session id 2", "requestState"]:
        assert (
            read(KEYS, base64.urlsafe_b64encode(KEYS.sign(purpose, payload) + payload).decode(), NOW) is None
        )


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_bit_of_it_can_be_changed(data):
    text = issue(
        KEYS, token(principal=data.draw(st.none() | st.text(st.characters(codec="utf-8"), max_size=5)))
    )
    signed = bytearray(base64.urlsafe_b64decode(text))
    bit = data.draw(st.integers(0, len(signed) * 8 - 1))
    signed[bit // 8] ^= 1 << bit % 8
    assert read(KEYS, base64.urlsafe_b64encode(signed).decode(), NOW) is None


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_character_of_it_can_be_changed(data):
    """Also not into one that decodes to the same: there is one text for each token."""
    text = issue(KEYS, token({"name": data.draw(st.sampled_from(["a", "ab", "abc"])), "version": "1"}))
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from(ALPHABET + "+/=. \n\0\x7f\xa0é\u0661") | st.characters())
    assume(other != text[place])
    assert read(KEYS, text[:place] + other + text[place + 1 :], NOW) is None


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_it_can_be_neither_shortened_nor_lengthened(data):
    text = issue(KEYS, token())
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assume(end - start < len(text))
    assert read(KEYS, text[start:end], NOW) is None
    more = data.draw(st.text(ALPHABET + "=+/ \t\r\n", min_size=1, max_size=8))
    place = data.draw(st.integers(0, len(text)))
    assert read(KEYS, text[:place] + more + text[place:], NOW) is None


def test_another_writing_of_the_same_bytes_is_refused():
    for number in range(200):
        text = issue(KEYS, token(id=str(number)))
        if "-" in text and "_" in text:
            assert read(KEYS, text, NOW) is not None
            assert read(KEYS, text.replace("-", "+").replace("_", "/"), NOW) is None
            return
    pytest.fail("no id with both characters")


def test_two_ids_cannot_be_joined():
    first, second = issue(KEYS, token()), issue(KEYS, token(id="another"))
    assert read(KEYS, first[:44] + second[44:], NOW) is None
    assert read(KEYS, first + second, NOW) is None


@settings(max_examples=300, deadline=None)
@example("")
@example("A" * 4)
@example("A" * 44)
@example("A" * 1024)
@example("A" * 1028)
@example("====")
@example("A" * 43 + "=")
@example("\ud800" * 44)
@example("\U0001d7d9" * 44)
@given(st.text(max_size=80) | st.text(ALPHABET + "=", max_size=1100))
def test_anything_at_all_is_refused_without_an_error(text):
    assert read(KEYS, text, NOW) is None


# What fits

TEXTS = st.text(st.characters(codec="utf-8"), max_size=60) | st.builds(
    lambda piece, times: piece * times,
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=3),
    st.integers(1, 2000),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=6,
)
INFO = st.builds(
    lambda extra, name, version: {**extra, "name": name, "version": version},
    st.dictionaries(TEXTS, JSON, max_size=4),
    TEXTS,
    TEXTS,
)
CAPABILITIES = st.dictionaries(
    st.sampled_from([*STANDARD, "experimental", "extensions"]) | TEXTS,
    JSON
    | st.dictionaries(st.sampled_from(["listChanged", "context", "tools", "form", "url", "requests"]), JSON),
    max_size=6,
)


@settings(max_examples=150, deadline=None)
@given(INFO, CAPABILITIES, st.none() | st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_client_has_an_id_that_fits_and_says_nothing_false(info, capabilities, principal):
    given_ = token(info, capabilities, principal=principal)
    returned = passed_on(given_)
    assert said(returned._replace(client=given_.client)) == said(given_)
    assert said(passed_on(returned)) == said(returned)

    assert set(returned.client.info) <= set(info)
    assert info["name"].startswith(returned.client.info["name"])
    assert info["version"].startswith(returned.client.info["version"])
    assert within(returned.client.capabilities, capabilities)
    for name in STANDARD:
        assert (name in returned.client.capabilities) or not isinstance(capabilities.get(name), dict)


def within(part: Any, whole: Any) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(name in whole and within(below, whole[name]) for name, below in part.items())
    return part == whole


SHORT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=3)
FEW = st.dictionaries(
    SHORT, st.none() | st.integers(-99, 99) | st.booleans() | SHORT | st.just({}), max_size=3
)


@settings(max_examples=100, deadline=None)
@given(FEW, SHORT, SHORT, st.dictionaries(st.sampled_from([*STANDARD, "extensions"]), FEW, max_size=3))
def test_a_client_that_is_small_enough_is_kept_whole(extra, name, version, capabilities):
    info = {**extra, "name": name, "version": version}
    returned = passed_on(token(info, capabilities))
    assert returned.client.info == info
    assert returned.client.capabilities == capabilities


ICON = {"icons": [{"src": "data:image/png;base64," + "A" * 2000}]}
EXTENSION = {"extensions": {"com.example/ui": {"mimeTypes": ["text/html"] * 3}}}


def test_what_a_client_says_beyond_its_name_and_version_goes_first():
    client = passed_on(token({"name": "inspector", "version": "1.2", **ICON}, STANDARD | EXTENSION)).client
    assert client.info == {"name": "inspector", "version": "1.2"}
    assert client.capabilities == STANDARD | EXTENSION


@pytest.mark.parametrize(
    "more",
    [
        {"experimental": {"x": "y" * 1000}},
        {"extensions": {"com.example/x": {"y": "z" * 1000}}},
        {"unheard-of": "x" * 1000},
        {"sampling": {"context": {"why": "x" * 1000}, "tools": {}, "x": {}}},
    ],
)
def test_capabilities_that_no_revision_defines_go_next(more):
    client = passed_on(token({"name": "inspector", "version": "1.2"}, STANDARD | more)).client
    assert client.info == {"name": "inspector", "version": "1.2"}
    assert client.capabilities == STANDARD


def test_a_denied_capability_stays_denied():
    denied = {"roots": {"listChanged": False}, "sampling": {}, "experimental": {"x": "y" * 1000}}
    client = passed_on(token(capabilities=denied)).client
    assert client.capabilities == {"roots": {"listChanged": False}, "sampling": {}}


@pytest.mark.parametrize("character", ["x", '"', "\n", "\0", "é", "水", "🌦"])
@pytest.mark.parametrize(("name", "version"), [(5000, 3), (3, 5000), (5000, 5000), (2_000_000, 0)])
def test_the_name_and_the_version_are_cut_last(character, name, version):
    given_ = token({"name": character * name, "version": character * version}, STANDARD)
    client = passed_on(given_).client
    assert client.capabilities == STANDARD
    assert len(client.info["name"]) >= min(name, 30)
    assert len(client.info["version"]) >= min(version, 15)
    assert len(issue(KEYS, given_)) > 1000


def test_a_subject_of_any_identity_provider_fits():
    """OpenID Connect, section 2: `sub` has 255 characters of ASCII at most."""
    subject = "auth0|" + "x" * 249
    returned = passed_on(
        token(
            {"name": "n" * 1000, "version": "v" * 1000},
            STANDARD,
            principal=subject,
            lists=frozenset({"tools", "prompts", "resources"}),
        )
    )
    assert returned.principal == subject
    assert returned.client.capabilities == STANDARD


@pytest.mark.parametrize("changes", [{"principal": "x" * 400}, {"home": "x" * 400}, {"principal": "\0" * 60}])
@pytest.mark.parametrize("name", ["n", "n" * 1000])
def test_a_principal_is_never_cut(changes, name):
    with pytest.raises(ValueError, match="home and principal do not fit"):
        issue(KEYS, token({"name": name, "version": "1"}, **changes))


def test_what_the_protocol_lets_in_comes_back_however_deep():
    deep = from_json('{"x": ' + "[" * 190 + "]" * 190 + "}")
    session = Handshake.receive(
        {
            "protocolVersion": "2025-11-25",
            "clientInfo": {"name": "deep", "version": "1", "x": deep["x"]},
            "capabilities": {},
        }
    )
    assert passed_on(token()._replace(client=session.client)).client.info == session.client.info
