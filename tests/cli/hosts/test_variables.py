"""Values with a dollar sign: what a host makes of them, what `mcpkit install` writes, and what commands read back."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pytest

from mcpkit import Client
from mcpkit.cli.configurations.places import file_of
from mcpkit.cli.configurations.reading import Document
from mcpkit.cli.configurations.shapes import entry_of
from mcpkit.cli.configurations.table import HOSTS
from mcpkit.cli.configurations.variables import variables_in
from mcpkit.cli.targets.configured import configured
from mcpkit.client.targets.configuration import Configuration
from mcpkit.client.targets.reached import Process, Remote

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))
PIECES = (
    "$", "{", "}", "$$", ":-", "env:", "SET", "UNSET", "word", "5", " ", "é", '"', "\\", "#", "%SET%", "/",
    "$SET", "${SET}", "${SET:-x}", "${UNSET:-x}", "${env:SET}", "${env:SET}", "${env:SET}", "$UNSET", "${UNSET}",
    "${userHome}", "${workspaceFolder}", "${/}", "${$}", "${input:key}", "${file:/x}", "${}",
)  # fmt: skip


def replaced(host: str, text: str, values: dict[str, str], home: str, folder: str) -> str:
    """Return what a host makes of a text, by its source or documentation; unset variables stay as they are."""
    places = {
        "userHome": home, "workspaceFolder": folder, "workspaceFolderBasename": Path(folder).name,
        "pathSeparator": os.sep, "/": os.sep,
    }  # fmt: skip

    def braced(found: re.Match[str]) -> str:
        inner = found[1]
        if host == "claude-code":
            name, _, default = inner.partition(":-")
            return values.get(name) or (default if ":-" in inner else found[0])
        if inner.startswith("env:"):
            return values.get(inner[4:], found[0])
        return places.get(inner, found[0]) if host in {"cursor", "vscode"} else found[0]

    if host in {"gemini-cli", "qwen-code"}:
        plain = re.compile(r"\$(?:(\w+)|\{([^}]+)\})", re.ASCII)
        return plain.sub(lambda found: values.get(found[1] or found[2], found[0]), text)
    if host in {"claude-code", "cursor", "vscode", "windsurf"}:
        return re.sub(r"\$\{([^}]*)\}", braced, text)
    return text


def read_back(name: str, folder: Path) -> Process | Remote:
    target = configured(name)
    assert isinstance(target, dict)
    return Configuration(target, name, folder).read("server").reached


@pytest.mark.parametrize("name", list(HOSTS))
def test_a_value_is_read_as_its_host_reads_it(name, home, project, monkeypatch) -> None:
    monkeypatch.setenv("SET", "value of $SET")
    monkeypatch.delenv("UNSET", raising=False)
    chance = random.Random(name)
    host = HOSTS[name]
    file = file_of(host, "user", project)
    file.path.parent.mkdir(parents=True, exist_ok=True)
    folders = str(home), str(project)
    seen = {"literal": 0, "replaced": 0, "refused": 0}
    for _ in range(max(20, EXAMPLES // len(HOSTS))):
        text = "".join(chance.choices(PIECES, k=chance.randint(1, 6)))
        is_remote = host.http is not None and chance.random() < 0.3
        server = (
            Remote("https://x.example/mcp", {"X-Key": text})
            if is_remote
            else Process(["npx", text], {"KEY": text}, None)
        )
        entry = entry_of(host, "shop", server)
        file.path.write_bytes(Document(file, b"").with_entry("shop", entry))
        wanted = replaced(name, text, {"SET": "value of $SET"}, *folders)
        is_refused = any(variables_in(host, entry))
        if not is_refused:
            assert wanted == text, f"{name} would not pass on {text!r}"
        else:
            every = dict.fromkeys(re.findall(r"\w+", text, re.ASCII), "-")
            special = re.search(r"\$\{(input|file):", text)
            assert special or replaced(name, text, every, *folders) != text, (
                f"{text!r} is refused for nothing"
            )
        try:
            reached = read_back(f"{name}:shop", project)
        except ValueError:  # a variable that is not set, or that only the host knows
            reached = None
        if reached is None:
            assert is_refused
            seen["refused"] += 1
        elif isinstance(reached, Remote):
            assert reached.headers == {"X-Key": wanted}
        else:
            assert reached.command[-1] == wanted
            assert reached.env == {"KEY": wanted}
        if reached is not None:
            seen["replaced" if is_refused else "literal"] += 1
    assert seen["literal"] > 0
    assert (seen["replaced"] > 0) == bool(host.variables)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gemini-cli", "-e", "KEY=pa$word"], "would replace what is spelled like $NAME in env.KEY"),
        (["claude-code", "-e", "KEY=a${B}c"], "spelled like ${NAME} in env.KEY"),
        (["vscode", "-e", "KEY=${env:B}"], "pass the value in a file with --env-file FILE"),
        (
            ["gemini-cli", "--cwd", "a$b"],
            "in cwd, and has no way to write it as it is. Add --expand to have it replaced, or use a path",
        ),
        (["cursor", "--cwd", "."], "--cwd"),
    ],
)
def test_install_refuses_what_the_host_would_replace(mcpkit, home, words, told) -> None:
    host, *options = words
    status, _, err = mcpkit("install", host, "npx shop", "--name", "shop", *options)
    assert (status, told in err) == (1, True), err
    assert "word" not in err
    assert not list(home.rglob("*.json"))


def test_install_has_the_host_replace_variables_where_that_is_wanted(mcpkit, home) -> None:
    words = ("install", "claude-code", "npx shop", "--name", "shop", "-e", "KEY=${KEY}", "--expand")
    assert mcpkit(*words)[0] == 0
    entry = json.loads((home / ".claude.json").read_text())["mcpServers"]["shop"]
    assert entry["env"] == {"KEY": "${KEY}"}


def test_goose_replaces_variables_of_the_entry_in_headers(home, project, monkeypatch) -> None:
    monkeypatch.setenv("SET", "1")
    file = home / ".config/goose/config.yaml"
    file.parent.mkdir(parents=True)
    headers = "{A: 'Bearer $TOKEN', B: '${ SET }', C: '$HOME $5'}"
    file.write_text(
        "extensions:\n  shop: {type: streamable_http, uri: 'https://x.example', envs: {TOKEN: 'pa$SET'}, "
        f"env_keys: [SET], headers: {headers}}}\n"
    )
    reached = read_back("goose:shop", project)
    assert isinstance(reached, Remote)
    assert reached.headers == {"A": "Bearer pa$SET", "B": "1", "C": "$HOME $5"}


@pytest.mark.anyio
async def test_an_entry_that_cannot_be_read_harms_no_other_of_its_file(mcpkit, project, caplog) -> None:
    mcpkit("install", "cursor", "server.py", "--scope", "project", "--name", "shop")
    file = project / ".cursor" / "mcp.json"
    content = json.loads(file.read_text())
    content["mcpServers"] |= {
        "unset": {"command": "x", "env": {"A": "${env:UNSET_HERE}"}},
        "wrong": {"args": 5},
    }
    file.write_text(json.dumps(content))
    assert read_back(f"{file}:shop", project)
    async with Client(file) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["shop_price"]
        assert set(client.failures) == {"unset", "wrong"}
    assert "the environment variable UNSET_HERE is not set" in caplog.text
    del content["mcpServers"]["shop"]
    file.write_text(json.dumps(content))
    with pytest.raises((TypeError, ValueError), match=r"UNSET_HERE|wrong"):
        Client(file)
