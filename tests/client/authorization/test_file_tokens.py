"""Tokens in a file: nobody else can read it, a change is whole, processes take turns, and odd files do no harm."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpkit.client.authorization.file_tokens import FileTokens
from mcpkit.client.authorization.storage import TokenStorageError
from mcpkit.client.authorization.tokens import Registration, Tokens

pytestmark = pytest.mark.anyio

RESOURCE = "https://mcp.example.com/mcp"
TOKENS = Tokens(RESOURCE, "https://id.example.com", "client", "access-SECRET")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "tokens.json"


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_only_the_owner_can_read_it_whatever_the_umask(path: Path) -> None:
    before = os.umask(0)
    try:
        await FileTokens(path).keep_tokens(TOKENS)
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    assert mode(path.parent) == 0o700
    assert [each.name for each in path.parent.iterdir()] == [path.name]  # no lock, no half of a file


async def test_another_storage_reads_it(path: Path) -> None:
    await FileTokens(path).keep_tokens(TOKENS)
    assert await FileTokens(str(path)).tokens(RESOURCE) == TOKENS


@pytest.mark.parametrize(
    ("what", "bits", "cure"),
    [
        ("file", 0o640, "chmod 600"),
        ("file", 0o604, "chmod 600"),
        ("file", 0o620, "chmod 600"),
        ("folder", 0o750, "chmod 700"),
        ("folder", 0o711, "chmod 700"),
        ("folder", 0o702, "chmod 700"),
    ],
)
async def test_what_others_can_read_or_write_is_refused_with_what_to_do(
    path: Path, what: str, bits: int, cure: str
) -> None:
    storage = FileTokens(path)
    await storage.keep_tokens(TOKENS)
    open_to_others = path if what == "file" else path.parent
    open_to_others.chmod(bits)
    for attempt in (storage.tokens(RESOURCE), storage.keep_tokens(TOKENS), storage.forget_tokens(RESOURCE)):
        with pytest.raises(TokenStorageError, match=rf"open to other users \(mode {bits:04o}\): {cure}"):
            await attempt
    open_to_others.chmod(0o600 if what == "file" else 0o700)
    assert await storage.tokens(RESOURCE) == TOKENS


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root gives files away")
async def test_what_belongs_to_another_user_is_refused(path: Path) -> None:
    storage = FileTokens(path)
    await storage.keep_tokens(TOKENS)
    os.chown(path, 65534, 65534)
    with pytest.raises(TokenStorageError, match="belongs to another user"):
        await storage.tokens(RESOURCE)


async def test_a_link_a_folder_and_a_pipe_are_no_files_of_tokens(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    target = path.parent / "elsewhere"
    target.write_text("{}")
    path.symlink_to(target)
    with pytest.raises(TokenStorageError, match="it is a link"):
        await FileTokens(path).tokens(RESOURCE)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(TokenStorageError, match="is no file"):
        await FileTokens(path).tokens(RESOURCE)
    with pytest.raises(TokenStorageError, match="is no file"):
        await FileTokens(path.parent).tokens(RESOURCE)


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TokenStorageError, match="cannot hold tokens"):
        await FileTokens(tmp_path / "file" / "tokens.json").keep_tokens(TOKENS)


@pytest.mark.parametrize(
    "text", ["", "access-SECRET", "[]", '{"records": {}}', '{"version": "1"}', "[" * 100_000]
)
async def test_a_file_that_holds_something_else_is_left_alone_and_not_quoted(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch(0o600)
    path.write_text(text)
    for attempt in (FileTokens(path).tokens(RESOURCE), FileTokens(path).keep_tokens(TOKENS)):
        with pytest.raises(
            TokenStorageError, match="holds no tokens: name another file, or remove it"
        ) as raised:
            await attempt
        assert "SECRET" not in str(raised.value)
        assert raised.value.__context__ is None or "SECRET" not in str(raised.value.__context__)
    assert path.read_text() == text


async def test_a_file_of_a_later_version_is_left_alone(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch(0o600)
    path.write_text('{"version": 2, "other": []}')
    with pytest.raises(TokenStorageError, match="later version of mcpkit"):
        await FileTokens(path).keep_tokens(TOKENS)
    assert path.read_text() == '{"version": 2, "other": []}'


async def test_changes_at_once_are_all_kept(path: Path) -> None:
    storages = [FileTokens(path) for _ in range(4)]
    each = [replace(TOKENS, resource=f"https://{number}.example") for number in range(40)]
    await asyncio.gather(*(storages[n % 4].keep_tokens(tokens) for n, tokens in enumerate(each)))
    assert [await storages[0].tokens(tokens.resource) for tokens in each] == each
    assert [left.name for left in path.parent.iterdir()] == [path.name]


RENEW = """
import asyncio, sys
from dataclasses import replace
from mcpkit.client.authorization.file_tokens import FileTokens

async def main():
    storage = FileTokens(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.read(1)
    async with storage.renewing(sys.argv[2]):
        tokens = await storage.tokens(sys.argv[2])
        if tokens.access_token == "old":
            print("renewed", flush=True)
            await storage.keep_tokens(replace(tokens, access_token="new"))
            tokens = await storage.tokens(sys.argv[2])
    print(tokens.access_token)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_of_processes_that_renew_at_once_one_does_and_the_others_take_its_tokens(path: Path) -> None:
    await FileTokens(path).keep_tokens(replace(TOKENS, access_token="old"))
    command = [sys.executable, "-c", RENEW, str(path), RESOURCE]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("x")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0].split() for process in processes]
    assert sorted(said) == [["new"], ["new"], ["new"], ["renewed", "new"]]


@pytest.mark.slow
async def test_a_process_that_is_killed_while_it_renews_keeps_nobody_out(path: Path) -> None:
    program = (
        "import asyncio, sys, time\nfrom mcpkit.client.authorization.file_tokens import FileTokens\n"
        "async def main():\n"
        "    async with FileTokens(sys.argv[1]).renewing(sys.argv[2]):\n"
        "        print('within', flush=True)\n"
        "        time.sleep(600)\n"
        "asyncio.run(main())"
    )
    command = [sys.executable, "-c", program, str(path), RESOURCE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "within\n"
        process.kill()
        process.wait()
    async with FileTokens(path).renewing(RESOURCE):
        pass


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.dictionaries(st.sampled_from([*TOKENS.record(), "secret", "method", "redirect_uris"]), JSON)


@given(FIELDS, JSON)
def test_records_of_any_form_are_read_or_are_none(changed: dict[str, Any], value: object) -> None:
    for record in ({**TOKENS.record(), **changed}, changed, value):
        tokens, registration = Tokens.read(record), Registration.read(record)
        if tokens is not None:
            assert Tokens.read(json.loads(json.dumps(tokens.record()))) == tokens
        if registration is not None:
            assert Registration.read(json.loads(json.dumps(registration.record()))) == registration


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200) | JSON.map(lambda value: json.dumps({"version": 1, "records": value}).encode())
)
def test_files_of_any_bytes_are_read_or_refused(tmp_path: Path, text: bytes) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / "tokens.json"
    path.touch(0o600)
    path.write_bytes(text)
    storage = FileTokens(path)
    try:
        asyncio.run(storage.load("a"))
    except TokenStorageError:
        return
    asyncio.run(storage.keep_tokens(TOKENS))
    assert asyncio.run(storage.tokens(RESOURCE)) == TOKENS
