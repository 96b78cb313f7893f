"""Where tokens are kept: memory, a file, the keyring. What is kept comes back, and nobody is shown any of it."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import keyring
import pytest
from keyring.backends.chainer import ChainerBackend

from mcpkit.client.authorization.file_tokens import FileTokens
from mcpkit.client.authorization.keyring_tokens import KeyringTokens, default_storage
from mcpkit.client.authorization.storage import (
    MemoryTokens,
    TokenStorage,
    TokenStorageError,
)
from mcpkit.client.authorization.tokens import VERSION, Registration, Tokens
from tests.helpers.memory_keyring import MemoryKeyring

pytestmark = pytest.mark.anyio

RESOURCE, ISSUER = "https://mcp.example.com/mcp", "https://id.example.com"
TOKENS = Tokens(
    RESOURCE,
    ISSUER,
    "client-1",
    "access-SECRET",
    "refresh-SECRET",
    "DPoP",
    1_800_000_000.5,
    frozenset({"notes:read", "notes:write"}),
    {"kty": "EC", "d": "key-SECRET"},
)
REGISTRATION = Registration(
    ISSUER, "client-1", "client-SECRET", "client_secret_basic", ("http://127.0.0.1:1/callback",), None
)


@pytest.fixture
def backend() -> Iterator[MemoryKeyring]:
    before, backend = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)


@pytest.fixture(params=["memory", "file", "keyring"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> TokenStorage:
    if request.param == "keyring":
        request.getfixturevalue("backend")
        return KeyringTokens()
    return MemoryTokens() if request.param == "memory" else FileTokens(tmp_path / "tokens" / "mcpkit.json")


async def test_what_is_kept_comes_back_and_is_forgotten_when_told(storage: TokenStorage) -> None:
    assert await storage.tokens(RESOURCE) is None
    await storage.forget_tokens(RESOURCE)
    await storage.keep_tokens(TOKENS)
    await storage.keep_registration(REGISTRATION)
    assert await storage.tokens(RESOURCE) == TOKENS
    assert await storage.registration(ISSUER) == REGISTRATION
    newer = replace(TOKENS, access_token="newer", refresh_token=None, expires=None, proof_key=None)
    await storage.keep_tokens(newer)
    assert await storage.tokens(RESOURCE) == newer
    await storage.forget_tokens(RESOURCE)
    await storage.forget_registration(ISSUER)
    assert await storage.tokens(RESOURCE) is None
    assert await storage.registration(ISSUER) is None


async def test_tokens_are_of_one_resource_and_one_client(storage: TokenStorage) -> None:
    await storage.keep_tokens(TOKENS)
    await storage.keep_tokens(replace(TOKENS, client_id="two"), "two")
    assert await storage.tokens(f"{RESOURCE}/") is None
    assert await storage.tokens("https://mcp.example.com") is None
    assert await storage.tokens(RESOURCE) == TOKENS
    assert await storage.tokens(RESOURCE, "two") == replace(TOKENS, client_id="two")
    assert await storage.registration(f"{ISSUER}/") is None


async def test_a_record_under_the_name_of_another_resource_is_not_taken(storage: TokenStorage) -> None:
    other = replace(TOKENS, resource="https://other.example")
    await storage.save(f"tokens {RESOURCE}", other.record())
    await storage.save(
        f"registration {ISSUER}", replace(REGISTRATION, issuer="https://other.example").record()
    )
    assert await storage.tokens(RESOURCE) is None
    assert await storage.registration(ISSUER) is None


async def test_the_version_before_is_read_and_a_later_one_left_alone(
    storage: TokenStorage, caplog: pytest.LogCaptureFixture
) -> None:
    await storage.save(f"tokens {RESOURCE}", {**TOKENS.record(), "version": VERSION - 1})
    assert await storage.tokens(RESOURCE) == TOKENS
    later = {**TOKENS.record(), "version": VERSION + 1, "more": "of it"}
    await storage.save(f"tokens {RESOURCE}", later)
    assert await storage.tokens(RESOURCE) is None
    with caplog.at_level(logging.WARNING):
        await storage.keep_tokens(TOKENS)
        await storage.forget_tokens(RESOURCE)
    assert await storage.load(f"tokens {RESOURCE}") == later
    assert "a later version of mcpkit" in caplog.text
    assert "SECRET" not in caplog.text


async def test_a_name_is_kept_from_others_meanwhile_and_other_names_are_not(storage: TokenStorage) -> None:
    order: list[str] = []
    is_within, may_leave = asyncio.Event(), asyncio.Event()

    async def first() -> None:
        async with storage.renewing(RESOURCE):
            is_within.set()
            await may_leave.wait()
            order.append("first")

    async def second() -> None:
        async with storage.renewing(RESOURCE):
            order.append("second")

    one = asyncio.ensure_future(first())
    await is_within.wait()
    two = asyncio.ensure_future(second())
    async with storage.renewing("https://other.example"):
        order.append("other")
    may_leave.set()
    await asyncio.gather(one, two)
    assert order == ["other", "first", "second"]


async def test_whoever_waits_may_give_up_and_the_next_gets_it(storage: TokenStorage) -> None:
    async with storage.renewing(RESOURCE):
        waiting = asyncio.ensure_future(storage.renewing(RESOURCE).__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    async with storage.renewing(RESOURCE):
        pass


async def test_two_event_loops_keep_each_other_out(storage: TokenStorage) -> None:
    is_within, order = threading.Event(), []

    async def elsewhere() -> None:
        is_within.set()
        async with storage.renewing(RESOURCE):
            order.append("elsewhere")

    async with storage.renewing(RESOURCE):
        thread = threading.Thread(target=lambda: asyncio.run(elsewhere()))
        thread.start()
        await asyncio.to_thread(is_within.wait)
        order.append("here")
    await asyncio.to_thread(thread.join)
    assert order == ["here", "elsewhere"]


def test_no_secret_is_shown() -> None:
    shown = f"{TOKENS!r} {TOKENS} {REGISTRATION!r} {MemoryTokens()!r} {FileTokens('x')!r}"
    assert "SECRET" not in shown
    assert "notes:read" in shown


@pytest.mark.usefixtures("backend")
async def test_the_keyring_is_the_default_where_there_is_one() -> None:
    assert isinstance(default_storage(), KeyringTokens)


@pytest.mark.parametrize("backend_name", ["fail", "null"])
async def test_memory_is_the_default_where_there_is_no_real_keyring(backend_name: str) -> None:
    before = keyring.get_keyring()
    keyring.set_keyring(
        getattr(__import__(f"keyring.backends.{backend_name}").backends, backend_name).Keyring()
    )
    try:
        assert isinstance(default_storage(), MemoryTokens)
    finally:
        keyring.set_keyring(before)


@pytest.mark.parametrize(("first", "kept_in"), [(5.0, KeyringTokens), (0.5, MemoryTokens)])
async def test_of_several_keyrings_the_one_that_keeps_what_is_new_counts(first: float, kept_in: type) -> None:
    class Several(ChainerBackend):
        viable = False  # so that nobody else finds it
        priority = 10  # type: ignore[assignment]  # a property of the class there
        backends = [SimpleNamespace(priority=first), SimpleNamespace(priority=0.4)]  # type: ignore[assignment]  # as well

    before = keyring.get_keyring()
    keyring.set_keyring(Several())
    try:
        assert isinstance(default_storage(), kept_in)
    finally:
        keyring.set_keyring(before)


async def test_without_the_package_memory_is_the_default_and_the_keyring_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert isinstance(default_storage(), MemoryTokens)
    with pytest.raises(ImportError, match=r"pip install .*\[keyring\]"):
        KeyringTokens()


async def test_a_long_token_is_kept_in_several_entries_of_a_keyring_and_none_is_left(
    backend: MemoryKeyring,
) -> None:
    storage = KeyringTokens("my program")
    long = replace(TOKENS, access_token="ä€😀" * 4_000)
    await storage.keep_tokens(long)
    assert len(backend.entries) > 10
    assert {service for service, _ in backend.entries} == {"my program"}
    assert await storage.tokens(RESOURCE) == long
    await storage.keep_tokens(TOKENS)
    assert len(backend.entries) == 1
    await storage.keep_tokens(long)
    await storage.forget_tokens(RESOURCE)
    assert backend.entries == {}


async def test_half_of_a_record_is_none(backend: MemoryKeyring) -> None:
    storage = KeyringTokens()
    await storage.keep_tokens(replace(TOKENS, access_token="x" * 5_000))
    del backend.entries[next(key for key in backend.entries if key[1].endswith(" 2"))]
    assert await storage.tokens(RESOURCE) is None
    await storage.keep_tokens(TOKENS)
    assert await storage.tokens(RESOURCE) == TOKENS


async def test_a_keyring_that_is_locked_is_said_without_what_it_says(backend: MemoryKeyring) -> None:
    storage = KeyringTokens()
    backend.problem = RuntimeError("locked, with access-SECRET in it")
    with pytest.raises(
        TokenStorageError, match=r"the keyring cannot be used \(RuntimeError\): unlock it"
    ) as raised:
        await storage.tokens(RESOURCE)
    assert raised.value.__suppress_context__
