"""Targets and arguments of commands, and the files that they save."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit._utils.python_safe_path import mcpkit_command
from mcpkit.cli.console import create_file, decode_base64, escape_control_characters
from mcpkit.cli.exit_status import CommandError, Status
from mcpkit.cli.key_values_and_usage import parse_arguments
from mcpkit.cli.server_target import resolve_target
from tests.helpers.tables import each_row

RUN = mcpkit_command("run")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("shop", "other"):
        (tmp_path / name).mkdir()
    for name in ("shop/__init__.py", "shop/server.py", "my server.py", "server.mjs"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(("word", "expected"), [
    ("https://example.com/mcp", "https://example.com/mcp"), ("shop/server.py", [*RUN, "shop/server.py"]),
    ("shop/server.py:tea", [*RUN, "shop/server.py:tea"]), ("shop.server:tea", [*RUN, "shop.server:tea"]),
    ("my server.py", [*RUN, "my server.py"]), ("shop", [*RUN, "shop/server.py"]), ("other", "other"),
    ("server.mjs", "server.mjs"), ("npx -y 'a server' --flag", ["npx", "-y", "a server", "--flag"]),
])  # fmt: skip
def test_target_of_word_returns_url_file_or_command(word: str, expected: object) -> None:
    found = resolve_target(word)
    assert found == expected or [str(Path(each)) for each in found] == expected


@pytest.mark.parametrize(("word", "message"), [
    ("", "the target is empty"),
    ("npx 'a", "the command cannot be split into words"),
    ("nothing", "nothing is not a file, a URL"),
])  # fmt: skip
def test_target_of_invalid_word_raises(word: str, message: str) -> None:
    with pytest.raises(CommandError, match=message):
        resolve_target(word)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer", "default": 1},
        "size": {"type": "number"},
        "is-on": {"type": "boolean"},
        "kind": {"enum": ["tea", "coffee", 3, None]},
        "one": {"const": "fixed"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
        "point": {"$ref": "#/$defs/Point"},
        "a.b": {"allOf": [{"$ref": "#/$defs/Point"}]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "either": {"type": ["string", "integer", "boolean"]},
        "loose": {"oneOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]},
        "any": {},
        "bytes": {"type": "string", "contentEncoding": "base64"},
        "limited": {"minimum": 3},
    },
    "required": ["text"],
}


def parse(*texts: str, **options: Any) -> dict[str, Any]:
    return parse_arguments("tool", {**SCHEMA, "required": []}, texts, **options)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "text=5 count=-5 size=2 limited=4 is-on=true kind=3 one=fixed tags=a maybe=null either=5 any=5",
            '"5" -5 2 4 true 3 "fixed" ["a"] null 5 5',
        ),
        (
            "text=a=b==c count:=7 size=2.5e3 is-on=False kind=tea maybe=nul either=true any=abc loose=abc",
            '"a=b==c" 7 2500.0 false "tea" "nul" true "abc" "abc"',
        ),
        ('text= kind=null tags=["a","b"] either=five', '"" null ["a","b"] "five"'),
        (
            'text:="@ada" tags= a.b={"x":1} any:={"deep":[1,{"x":null}]}',
            '"@ada" [] {"x":1} {"deep":[1,{"x":null}]}',
        ),
        ('text=a:=b tags=a tags=b point={"x":1}', '"a:=b" ["a","b"] {"x":1}'),
        ("text=null counts=1 counts=null loose=1 loose=2", '"null" [1,null] [1,2]'),
    ],
    ids=["types", "other-types", "empty", "json", "repeated", "null"],
)
def test_argument_is_parsed_by_the_type_of_its_schema(words: str, expected: str) -> None:
    found = parse(*words.split()).values()
    assert " ".join(json.dumps(each, separators=(",", ":")) for each in found) == expected


@pytest.mark.parametrize(("texts", "message"), [
    (["count=five"], 'count: expected integer, got "five"'),
    (["count=1.5"], 'count: expected integer, got "1.5"'),
    (["size=nan"], 'size: expected number, got "nan"'),
    (["is-on=perhaps"], 'is-on: expected boolean, got "perhaps"'),
    (["kind=water"], 'kind: expected tea, coffee, 3 or null, got "water"'),
    (["counts=a"], 'counts: expected array of integer or null, got "a"'),
    (["tags=[1"], 'tags: expected array of string, got "[1"'),
    (["point=1"], 'point: expected object, got "1"'),
    (["text=a", "text=b"], "text: given 2 times, expected one string"),
    (["tags=a", 'tags:=["b"]'], "tags: given more than once. Write an array as key:=[...]"),
    (["text:=a"], "text: invalid JSON: "),
    (["size:=NaN"], "size: invalid JSON: NaN is not valid in JSON"),
    (["txt=a"], "txt: no such argument; did you mean text?"),
])  # fmt: skip
def test_argument_mismatch_raises_with_expected_type(texts: list[str], message: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse(*texts)
    assert caught.value.status == Status.TOOL_ERROR
    assert str(caught.value).startswith(message)
    assert "tool takes:\n  text     string" in str(caught.value)
    assert "count    integer = 1" in str(caught.value)


def test_argument_from_file_is_text_or_base64_by_schema(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "text.txt").write_text("Blåbær\n", encoding="utf-8")
    (tmp_path / "data.bin").write_bytes(b"\xff\x00\xfe")
    (tmp_path / "point.json").write_text('{"x": 1}\n', encoding="utf-8")
    assert parse(f"text=@{tmp_path}/text.txt", "bytes=@data.bin", "point=@point.json") == {
        "text": "Blåbær\n",
        "bytes": "/wD+",
        "point": {"x": 1},
    }
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from here")))
    assert parse("text=@-") == {"text": "from here"}
    with pytest.raises(CommandError, match=r"data\.bin is not UTF-8"):
        parse("text=@data.bin")
    with pytest.raises(CommandError, match=r"cannot read .*absent\.txt") as caught:
        parse("text=@absent.txt")
    assert caught.value.status == Status.NO_SUCH_THING


def test_args_option_is_sent_unchanged_with_overrides(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"unknown": 1, "text": "a"}), encoding="utf-8")
    for written in (f"@{path}", path.read_text(encoding="utf-8")):
        found = parse_arguments("tool", SCHEMA, ["text=b"], written)
        assert found == {"unknown": 1, "text": "b"}
    for wrong, message in (("[1]", "must be a JSON object"), ("{", "--args: invalid JSON")):
        with pytest.raises(CommandError, match=message) as caught:
            parse_arguments("tool", SCHEMA, [], wrong)
        assert caught.value.status == Status.USAGE


@each_row(("name", "mime_type", "expected"), [
    ("chart", "image/png", "chart.png"), ("chart.svg", "image/svg+xml", "chart.svg"),
    ("photo", "image/jpeg; q=1", "photo.jpg"), ("notes", None, "notes.bin"),
    ("make.order", "image/png", "make.order"), ("../../etc/passwd", "text/plain", "_.._etc_passwd.txt"),
    ("C:\\windows\\x", "image/png", "C__windows_x.png"), ("..", None, "content.bin"),
    ("", "audio/wav", "content.wav"), ("CON", "image/png", "_CON.png"), ("nul.txt", None, "_nul.txt"),
    ("a" * 300, "image/png", "a" * 80 + ".png"), ("snow ☃", "image/png", "snow__.png"),
    ("x", "no/such-type", "x.bin"),
])  # fmt: skip
def test_saved_file_has_a_safe_name_in_its_folder(name, mime_type, expected, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("saved")
    path = create_file(b"content", folder, name, mime_type)
    assert path == folder / expected
    assert path.read_bytes() == b"content"


def test_saved_file_overwrites_nothing_and_follows_no_link(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    (tmp_path / "chart.png").symlink_to(mine)
    assert create_file(b"1", tmp_path, "chart", "image/png").name == "chart-2.png"
    assert create_file(b"2", tmp_path, "chart", "image/png").name == "chart-3.png"
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("data", ["***", "abcde", None, 5])
def test_decoded_invalid_base64_is_tool_error(data: object) -> None:
    with pytest.raises(CommandError, match="the picture is not valid base64") as caught:
        decode_base64(data, "the picture")
    assert caught.value.status == Status.TOOL_ERROR


def test_printable_escapes_control_characters() -> None:
    assert escape_control_characters("plain ☃\n\ttext") == "plain ☃\n\ttext"
    assert escape_control_characters("\x1b[31mred\x07\r\u202e") == "\\x1b[31mred\\x07\\r\\u202e"


def test_additional_arguments_are_accepted_by_schema() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}}
    assert parse_arguments("tool", schema, ["x=5"]) == {"x": 5}
    assert parse_arguments("tool", {"type": "object"}, ["x=5"]) == {"x": 5}
    with pytest.raises(CommandError, match=r"x: no such argument\ntool takes no arguments"):
        parse_arguments("tool", {"type": "object", "properties": {}}, ["x=5"])
