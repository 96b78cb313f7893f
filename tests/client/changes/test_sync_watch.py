"""Changes, for code without an event loop."""

from __future__ import annotations

import gc
import threading
import time

import pytest

from mcpkit import Change, ProtocolError, SyncClient
from tests.helpers.changing_server import changing_server
from tests.helpers.listening import hearing
from tests.helpers.waiting import PATIENCE


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_changes_are_heard_in_a_loop(revision: str) -> None:
    server = changing_server()
    with SyncClient(server, revision=revision) as client:
        with client.watch(resources="x://a") as changes:
            client.call("change")
            assert next(changes) == Change("resource", "x://a")
            client.call("change")
            for change in changes:
                assert change == Change("resource", "x://a")
                break
        assert list(changes) == []
        changes.close()
        with pytest.raises(ProtocolError, match="the list of prompts"), client.watch(prompts=True):
            pass


def test_break_ends_the_listening_at_the_server() -> None:
    server = changing_server()
    with SyncClient(server, revision="2026-07-28") as client:
        threading.Timer(0.01, lambda: client.call("change")).start()
        for change in client.watch(tools=True):
            assert change.kind == "tools"
            break
        gc.collect()
        deadline = time.monotonic() + PATIENCE
        while client.wait_for(lambda: _count(server)):
            assert time.monotonic() < deadline


async def _count(server: object) -> int:
    return hearing(server)  # type: ignore[arg-type]


def test_the_end_of_the_client_ends_the_loop_of_another_thread() -> None:
    server = changing_server()
    heard: list[Change] = []
    is_heard = threading.Event()

    def follow(client: SyncClient) -> None:
        with client.watch(resources="x://a") as changes:
            for change in changes:
                heard.append(change)
                is_heard.set()

    with SyncClient(server) as client:
        following = threading.Thread(target=follow, args=(client,))
        following.start()
        deadline = time.monotonic() + PATIENCE
        while not is_heard.is_set():
            assert time.monotonic() < deadline
            client.call("change")
            is_heard.wait(0.01)
    following.join(PATIENCE)
    assert not following.is_alive()
    assert set(heard) == {Change("resource", "x://a")}


def test_one_of_a_client_that_was_never_open_says_so() -> None:
    changes = SyncClient(changing_server()).watch(tools=True)
    with pytest.raises(ConnectionError, match="not open"):
        next(changes)
    with pytest.raises(ConnectionError, match="not open"), changes:
        pass
