"""Changes to JSON with comments: for whatever document, only the own entry comes and goes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpkit.cli import app
from mcpkit.cli.configurations import jsonc_text

ENTRY = {"command": "/usr/bin/python", "args": ["-m", "mcpkit", "run", "/a b/ü.py:x"], "env": {"A": '"/*'}}
KEYS = ("mcpServers",)

words = st.sampled_from(["a", "b c", "// no comment", "/* none */", "é", 'q"', "}", ",", "mcp"])
scalars = st.sampled_from(["1", "-2.5e3", "true", "null"]) | words.map(json.dumps)


@st.composite
def gaps(draw: st.DrawFn, *, newline: str) -> str:
    """White space, with comments in it."""
    part = st.sampled_from(
        ["", "", " ", "\t", newline, f'// one, {{ "{newline}', "/* some }, */", f"/* over{newline} lines */"]
    )
    return "".join(draw(st.lists(part, max_size=3)))


@st.composite
def values(draw: st.DrawFn, newline: str, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["scalar", "array", "object"] if depth else ["scalar"]))
    if kind == "scalar":
        return draw(scalars)
    if kind == "object":
        return draw(objects(newline, depth - 1, draw(st.lists(words, max_size=3, unique=True))))
    items = [draw(values(newline, depth - 1)) for _ in range(draw(st.integers(0, 2)))]
    return draw(joined(newline, "[", items, "]"))


@st.composite
def joined(draw: st.DrawFn, newline: str, opening: str, items: list[str], closing: str) -> str:
    gap = gaps(newline=newline)
    text = opening + draw(gap)
    for index, item in enumerate(items):
        is_last = index == len(items) - 1
        comma = "," if not is_last or draw(st.booleans()) else ""
        text += item + draw(gap) + comma + draw(gap)
    return text + closing


@st.composite
def objects(draw: st.DrawFn, newline: str, depth: int, keys: list[str]) -> str:
    members = [
        f"{json.dumps(key)}{draw(gaps(newline=newline))}:{draw(gaps(newline=newline))}{draw(values(newline, depth))}"
        for key in keys
    ]
    return draw(joined(newline, "{", members, "}"))


@st.composite
def documents(draw: st.DrawFn) -> str:
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    gap = gaps(newline=newline)
    keys = draw(st.lists(words, max_size=2, unique=True))
    if draw(st.booleans()):
        return draw(gap) + draw(objects(newline, 2, keys)) + draw(gap)
    servers = draw(objects(newline, 1, draw(st.lists(words, max_size=3, unique=True))))
    rest = [f"{json.dumps(key)}: {draw(values(newline))}" for key in keys]
    rest.insert(draw(st.integers(0, len(rest))), f'"mcpServers"{draw(gap)}:{draw(gap)}{servers}')
    return draw(gap) + draw(joined(newline, "{", rest, "}")) + draw(gap)


def comments(text: str) -> list[str]:
    found = re.finditer(r'"(?:[^"\\\n]|\\.)*"|(//[^\n]*|/\*.*?\*/)', text, re.DOTALL)
    return [each[1].rstrip("\r") for each in found if each[1]]


def is_kept(text: str, other: str) -> bool:
    """Say whether all of a text but white space and commas is in another, in its order."""
    rest = iter(re.sub(r"[\s,]", "", other))
    return all(letter in rest for letter in re.sub(r"[\s,]", "", text))


@settings(max_examples=100, deadline=None)
@given(documents())
def test_an_entry_comes_and_goes_and_all_else_stays(text: str) -> None:
    before = jsonc_text.read(text)
    assert isinstance(before, dict)
    with_it = jsonc_text.with_entry(text, KEYS, "shop", ENTRY)
    assert jsonc_text.read(with_it) == {
        **before,
        "mcpServers": {**before.get("mcpServers", {}), "shop": ENTRY},
    }
    assert comments(with_it) == comments(text)
    assert is_kept(text, with_it)
    other = jsonc_text.with_entry(with_it, KEYS, "shop", {"url": "x"})
    assert jsonc_text.read(other)["mcpServers"]["shop"] == {"url": "x"}
    assert comments(other) == comments(text)
    without_it = jsonc_text.without_entry(with_it, KEYS, "shop")
    assert jsonc_text.read(without_it) == {**before, "mcpServers": before.get("mcpServers", {})}
    assert comments(without_it) == comments(text)
    assert "\n" not in with_it.replace("\r\n", "") or "\r\n" not in with_it


@settings(max_examples=40, deadline=None)
@given(documents(), st.data())
def test_any_entry_goes_and_all_else_stays(text: str, data: st.DataObject) -> None:
    before = jsonc_text.read(text)
    assert isinstance(before, dict)
    servers = before.get("mcpServers", {})
    if not servers:
        return
    name = data.draw(st.sampled_from(sorted(servers)))
    without_it = jsonc_text.without_entry(text, KEYS, name)
    rest = {each: entry for each, entry in servers.items() if each != name}
    assert jsonc_text.read(without_it) == {**before, "mcpServers": rest}
    assert is_kept(without_it, text)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents(), st.sampled_from([b"", b"\xef\xbb\xbf"]))
def test_a_file_is_the_same_to_the_byte_once_its_server_has_gone(text: str, mark: bytes) -> None:
    file = Path.home() / ".cursor" / "mcp.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(mark + text.encode())
    assert app.run(["install", "cursor", "npx shop", "--name", "shop"]) == 0
    assert file.read_bytes() != mark + text.encode()
    assert app.run(["uninstall", "cursor", "shop"]) == 0
    assert file.read_bytes() == mark + text.encode()
