from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit.broker import Broker, MemoryBroker

T = TypeVar("T")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that must not suspend, with no event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    pytest.fail("the coroutine suspends")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def broker(clock: Clock) -> MemoryBroker:
    return MemoryBroker(clock)


def read(broker: Broker, key: str) -> dict[str, str]:
    return dict(finished(broker.read(key)))


def write(broker: Broker, key: str, changes: Mapping[str, str | None], ttl: float = 60) -> None:
    finished(broker.write(key, changes, ttl))


# The store


def test_what_was_never_written_is_empty(broker):
    assert read(broker, "a") == {}


def test_writes_are_merged_and_none_removes(broker):
    write(broker, "a", {"level": "info", "uri": "x"})
    write(broker, "a", {"level": "debug", "uri": None, "absent": None, "state": ""})
    assert read(broker, "a") == {"level": "debug", "state": ""}
    assert read(broker, "b") == {}


@pytest.mark.parametrize("changes", [{}, {"level": None}])
def test_a_key_without_fields_is_not_created(broker, changes):
    write(broker, "a", changes)
    assert read(broker, "a") == {}
    assert len(broker) == 0


def test_a_key_that_loses_its_last_field_is_gone(broker):
    write(broker, "a", {"level": "info"})
    write(broker, "a", {"level": None})
    assert len(broker) == 0
    write(broker, "a", {})
    assert read(broker, "a") == {}


def test_delete_removes_and_may_be_repeated(broker):
    write(broker, "a", {"level": "info"})
    finished(broker.delete("a"))
    finished(broker.delete("a"))
    assert read(broker, "a") == {}
    write(broker, "a", {"uri": "x"})
    assert read(broker, "a") == {"uri": "x"}


def test_what_was_read_does_not_change(broker):
    write(broker, "a", {"level": "info"})
    before = finished(broker.read("a"))
    write(broker, "a", {"level": "debug"})
    assert before == {"level": "info"}
    with pytest.raises(TypeError):
        before["level"] = "error"


def test_what_was_written_may_be_changed_by_who_wrote_it(broker):
    fields = {"level": "info"}
    write(broker, "a", fields)
    fields["level"] = "debug"
    assert read(broker, "a") == {"level": "info"}


# Expiry


def test_a_key_is_gone_exactly_when_its_time_is_over(broker, clock):
    write(broker, "a", {"level": "info"}, 10)
    clock.now += 9.999
    assert read(broker, "a") == {"level": "info"}
    clock.now = 1010.0
    assert read(broker, "a") == {}


def test_an_expired_key_is_written_anew(broker, clock):
    write(broker, "a", {"level": "info"}, 10)
    clock.now += 10
    write(broker, "a", {"uri": "x"}, 10)
    assert read(broker, "a") == {"uri": "x"}


def test_an_expired_key_cannot_be_touched_back_to_life(broker, clock):
    write(broker, "a", {"level": "info"}, 10)
    clock.now += 10
    write(broker, "a", {}, 10)
    assert read(broker, "a") == {}


@pytest.mark.parametrize("changes", [{}, {"level": "debug"}])
@pytest.mark.parametrize("ttl", [5, 20])
def test_each_write_sets_the_time_for_the_whole_key(broker, clock, changes, ttl):
    write(broker, "a", {"level": "info", "uri": "x"}, 10)
    clock.now += 1
    write(broker, "a", changes, ttl)
    clock.now += ttl - 0.5
    assert read(broker, "a") == {"level": "info", "uri": "x"} | changes
    clock.now += 0.5
    assert read(broker, "a") == {}
    broker.sweep()
    assert len(broker) == 0


@pytest.mark.parametrize("ttl", [0, -1])
def test_with_no_time_left_the_key_is_gone_at_once(broker, ttl):
    write(broker, "a", {"level": "info"})
    write(broker, "a", {"level": "debug"}, ttl)
    assert read(broker, "a") == {}


def test_each_write_gives_back_what_has_expired(broker, clock):
    for number in range(100):
        write(broker, str(number), {"level": "info"}, 10 + number % 2)
    clock.now += 10
    write(broker, "new", {"level": "info"})
    assert len(broker) == 51


def test_a_prolonged_key_survives_the_sweep_of_its_first_date(broker, clock):
    write(broker, "a", {"level": "info"}, 10)
    write(broker, "a", {}, 30)
    clock.now += 20
    broker.sweep()
    assert read(broker, "a") == {"level": "info"}
    clock.now += 10
    broker.sweep()
    assert len(broker) == 0


def test_ten_thousand_abandoned_keys_give_their_memory_back(broker, clock):
    write(broker, "kept", {"level": "info"}, 1e6)
    tracemalloc.start()
    try:
        for number in range(10_000):
            write(broker, f"weather/session/{number}", {"level": "info", "uri": str(number)})
        full, _ = tracemalloc.get_traced_memory()
        clock.now += 60
        broker.sweep()
        gc.collect()  # the interpreter keeps some memory of its own for the next tuples
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(broker) == 1
    assert full > 1_000_000
    assert left < 20_000


def test_keys_that_come_and_go_leave_nothing_until_their_date(broker):
    tracemalloc.start()
    try:
        for number in range(5_000):
            write(broker, str(number), {"level": "info"}, 1e6)
            finished(broker.delete(str(number)))
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 50_000


def test_a_date_that_moves_nearer_bit_by_bit_costs_no_memory(broker, clock):
    # An absolute end told as seconds from now drifts, as two clocks never agree.
    write(broker, "a", {"level": "info"}, 1e6)
    tracemalloc.start()
    try:
        for number in range(5_000):
            write(broker, "a", {}, 1e6 - number / 1000)
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 50_000
    clock.now += 1e6 - 4.999
    assert read(broker, "a") == {}


KEYS = st.sampled_from("abc")
CHANGES = st.dictionaries(st.sampled_from("xyz"), st.none() | st.sampled_from(["", "1", "2"]), max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), KEYS, CHANGES, st.integers(-1, 20)),
        st.tuples(st.just("delete"), KEYS),
        st.tuples(st.just("wait"), st.integers(1, 10)),
        st.tuples(st.just("sweep")),
    ),
    max_size=40,
)


class Model:
    """The same store with no cleverness: it looks at everything each time."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.kept: dict[str, tuple[dict[str, str], float]] = {}

    def read(self, key: str) -> dict[str, str]:
        fields, expires = self.kept.get(key, ({}, 0.0))
        return fields if expires > self.clock.now else {}

    def write(self, key: str, changes: dict[str, str | None], ttl: float) -> None:
        fields = {name: text for name, text in (self.read(key) | changes).items() if text is not None}
        self.kept[key] = (fields, self.clock.now + ttl)

    def delete(self, key: str) -> None:
        self.kept.pop(key, None)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_it_agrees_with_a_store_that_looks_at_everything(steps):
    clock = Clock()
    broker, model = MemoryBroker(clock), Model(clock)
    for name, *arguments in steps:
        if name == "wait":
            clock.now += arguments[0]
        elif name == "sweep":
            broker.sweep()
            assert len(broker) == sum(bool(model.read(key)) for key in "abc")
        else:
            finished(getattr(broker, name)(*arguments))
            getattr(model, name)(*arguments)
        assert {key: read(broker, key) for key in "abc"} == {key: model.read(key) for key in "abc"}
    clock.now += 20
    broker.sweep()
    assert len(broker) == 0


# Topics


def test_a_message_reaches_every_listener_of_its_topic_in_order(broker):
    first: list[str] = []
    second: list[str] = []
    broker.subscribe("changes", first.append)
    broker.subscribe("changes", second.append)
    broker.subscribe("other", lambda _: pytest.fail("another topic"))
    for message in ["a", "b", ""]:
        finished(broker.publish("changes", message))
    assert first == second == ["a", "b", ""]


def test_a_listener_hears_nothing_after_it_has_left(broker):
    heard: list[str] = []
    leave = broker.subscribe("changes", heard.append)
    stay = broker.subscribe("changes", heard.append)
    leave()
    leave()
    finished(broker.publish("changes", "once"))
    stay()
    finished(broker.publish("changes", "never"))
    assert heard == ["once"]


def test_listeners_may_come_and_go_while_a_message_is_told(broker):
    heard: list[str] = []

    def once(message: str) -> None:
        leave()
        heard.append(message)
        broker.subscribe("changes", heard.append)

    leave = broker.subscribe("changes", once)
    finished(broker.publish("changes", "a"))
    finished(broker.publish("changes", "b"))
    assert heard == ["a", "b"]


def test_a_subscription_may_end_in_the_middle_of_anything(broker, clock):
    leave = broker.subscribe("changes", lambda _: pytest.fail("it has left"))

    def collect_garbage() -> float:
        leave()
        return 0.0

    finished(MemoryBroker(collect_garbage).write("a", {"level": "info"}, 1))
    broker._clock = collect_garbage
    write(broker, "a", {"level": "info"})
    finished(broker.publish("changes", "a"))


def test_a_listener_that_fails_is_logged_and_the_others_hear(broker, caplog):
    def fail(message: str) -> None:
        raise LookupError(message)

    heard: list[str] = []
    broker.subscribe("changes", fail)
    broker.subscribe("changes", heard.append)
    with caplog.at_level(logging.ERROR, "mcpkit"):
        finished(broker.publish("changes", "a"))
    assert heard == ["a"]
    assert "changes" in caplog.text
    assert "LookupError: a" in caplog.text


def test_topics_and_keys_have_names_of_their_own(broker):
    broker.subscribe("a", lambda _: pytest.fail("nothing was published"))
    write(broker, "a", {"level": "info"})
    finished(broker.publish("b", "nobody listens"))
    assert read(broker, "a") == {"level": "info"}


# Threads and processes

THREADS = 8
TURNS = 300


def in_threads(work: Any) -> None:
    """Run `work(number)` in THREADS threads that start together; raise what any of them raises."""
    gate = threading.Barrier(THREADS)

    def run(number: int) -> None:
        gate.wait()
        work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(run, range(THREADS)))


@pytest.fixture
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("frequent_switches")
def test_no_field_is_lost_when_threads_write_one_key():
    broker = MemoryBroker()

    def work(number: int) -> None:
        for turn in range(TURNS):
            write(broker, "a", {f"{number}": str(turn), f"{number}-{turn % 5}": "x"})
            assert read(broker, "a")[f"{number}"] == str(turn)

    in_threads(work)
    assert len(read(broker, "a")) == THREADS * 6


@pytest.mark.usefixtures("frequent_switches")
def test_a_read_sees_all_of_a_write_or_none():
    broker = MemoryBroker()
    write(broker, "a", {"left": "0", "right": "0"})

    def work(number: int) -> None:
        for turn in range(TURNS):
            if number % 2:
                write(broker, "a", {"left": f"{number} {turn}", "right": f"{number} {turn}"})
            else:
                fields = read(broker, "a")
                assert fields["left"] == fields["right"]

    in_threads(work)


@pytest.mark.usefixtures("frequent_switches")
def test_keys_come_and_expire_under_threads():
    clock = Clock()
    broker = MemoryBroker(clock)

    def work(number: int) -> None:
        for turn in range(TURNS):
            write(broker, f"{number}/{turn}", {"turn": str(turn)}, 1 + turn % 7)
            clock.now += 0.01
            if turn % 3 == 0:
                finished(broker.delete(f"{number}/{turn}"))
            if turn % 10 == 0:
                broker.sweep()

    in_threads(work)
    clock.now += 10
    broker.sweep()
    assert len(broker) == 0


@pytest.mark.usefixtures("frequent_switches")
def test_every_message_is_heard_while_listeners_come_and_go():
    broker = MemoryBroker()
    heard: list[str] = []
    broker.subscribe("changes", heard.append)

    def work(number: int) -> None:
        for turn in range(TURNS):
            leave = broker.subscribe("changes", lambda _: None)
            finished(broker.publish("changes", f"{number} {turn}"))
            leave()

    in_threads(work)
    for number in range(THREADS):
        own = [message for message in heard if message.startswith(f"{number} ")]
        assert own == [f"{number} {turn}" for turn in range(TURNS)]
    assert len(heard) == THREADS * TURNS


def test_each_broker_is_a_home_of_its_own():
    homes = {MemoryBroker().home for _ in range(50)}
    assert len(homes) == 50
    assert all(home.isascii() and len(home) <= 64 for home in homes)
    broker = MemoryBroker()
    assert broker.home == broker.home


FORKS = """
import os
from mcpkit.broker import MemoryBroker

broker = MemoryBroker()
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
