"""A broker under several threads, and the one in memory in processes that fork."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mcpkit import Memory
from tests.helpers.clock import Clock
from tests.helpers.engines import THREADS, Engine, claim, done, eventually, in_threads, read, size, write


@pytest.fixture
def broker(engine: Engine) -> Engine:
    return engine


@pytest.fixture
def turns(broker: Engine) -> int:
    return 300 if isinstance(broker, Memory) else 25


@pytest.mark.usefixtures("frequent_switches")
def test_no_field_is_lost_when_threads_write_one_key(broker, turns):

    def work(number: int) -> None:
        for turn in range(turns):
            write(broker, "a", {f"{number}": str(turn), f"{number}-{turn % 5}": "x"})
            assert read(broker, "a")[f"{number}"] == str(turn)

    in_threads(work)
    assert len(read(broker, "a")) == THREADS * 6


@pytest.mark.usefixtures("frequent_switches")
def test_a_read_sees_all_of_a_write_or_none(broker, turns):
    write(broker, "a", {"left": "0", "right": "0"})

    def work(number: int) -> None:
        for turn in range(turns):
            if number % 2:
                write(broker, "a", {"left": f"{number} {turn}", "right": f"{number} {turn}"})
            else:
                fields = read(broker, "a")
                assert fields["left"] == fields["right"]

    in_threads(work)


@pytest.mark.slow
@pytest.mark.usefixtures("frequent_switches")
def test_keys_come_and_expire_under_threads(broker, clock: Clock, turns):

    def work(number: int) -> None:
        for turn in range(turns):
            write(broker, f"{number}/{turn}", {"turn": str(turn)}, 1 + turn % 7)
            clock.now += 0.01
            if turn % 3 == 0:
                done(broker.erase(f"{number}/{turn}"))
            if turn % 10 == 0:
                size(broker)

    in_threads(work)
    clock.now += 10
    assert size(broker) == 0


@pytest.mark.usefixtures("frequent_switches")
def test_of_all_threads_that_claim_a_key_one_has_it(broker, turns):
    won: list[int] = []

    def work(number: int) -> None:
        for turn in range(turns):
            if claim(broker, str(turn)):
                won.append(turn)

    in_threads(work)
    assert sorted(won) == list(range(turns))


@pytest.mark.usefixtures("frequent_switches")
def test_every_message_is_heard_while_listeners_come_and_go(broker, turns):
    heard: list[str] = []
    broker.subscribe("changes", heard.append)

    def work(number: int) -> None:
        for turn in range(turns):
            leave = broker.subscribe("changes", lambda _: None)
            done(broker.publish("changes", f"{number} {turn}"))
            leave()

    in_threads(work)
    eventually(lambda: len(heard) == THREADS * turns)
    for number in range(THREADS):
        own = [message for message in heard if message.startswith(f"{number} ")]
        assert own == [f"{number} {turn}" for turn in range(turns)]
    assert len(heard) == THREADS * turns


def test_each_broker_is_a_home_of_its_own():
    homes = {Memory().home for _ in range(50)}
    assert len(homes) == 50
    assert all(home.isascii() and len(home) <= 64 for home in homes)
    broker = Memory()
    assert broker.home == broker.home


FORKS = """
import os
from mcpkit.state.memory import Memory

broker = Memory()
print(broker.home, flush=True)
for _ in range(2):
    if os.fork() == 0:
        print(broker.home, broker.home, flush=True)
        os._exit(0)
    os.wait()
print(broker.home)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_forked_child_is_a_home_of_its_own():
    output = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=60
    )
    parent, first, second, again = output.stdout.splitlines()
    assert parent == again
    assert first.split()[0] == first.split()[1]
    assert len({parent, first.split()[0], second.split()[0]}) == 3
