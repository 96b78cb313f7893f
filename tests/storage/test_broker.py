"""A broker: what is recorded, claimed and published."""

from __future__ import annotations

import logging

import pytest

from mcpkit import Memory
from tests.helpers.engines import Engine, claim, done, eventually, finished, read, size, write


@pytest.fixture
def broker(engine: Engine) -> Engine:
    return engine


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
    assert size(broker) == 0


def test_a_key_that_loses_its_last_field_is_gone(broker):
    write(broker, "a", {"level": "info"})
    write(broker, "a", {"level": None})
    assert size(broker) == 0
    write(broker, "a", {})
    assert read(broker, "a") == {}


def test_delete_removes_and_may_be_repeated(broker):
    write(broker, "a", {"level": "info"})
    done(broker.erase("a"))
    done(broker.erase("a"))
    assert read(broker, "a") == {}
    write(broker, "a", {"uri": "x"})
    assert read(broker, "a") == {"uri": "x"}


def test_what_was_read_does_not_change(broker):
    write(broker, "a", {"level": "info"})
    before = done(broker.read("a"))
    write(broker, "a", {"level": "debug"})
    assert before == {"level": "info"}
    with pytest.raises(TypeError):
        before["level"] = "error"


def test_what_was_written_may_be_changed_by_who_wrote_it(broker):
    fields = {"level": "info"}
    write(broker, "a", fields)
    fields["level"] = "debug"
    assert read(broker, "a") == {"level": "info"}


# Claims


def test_a_claim_is_made_once(broker):
    assert claim(broker, "a") is True
    assert claim(broker, "a") is False
    assert claim(broker, "a", 3600) is False


def test_each_key_is_claimed_apart_and_is_none_that_is_written(broker):
    write(broker, "record", {"level": "info"})
    assert claim(broker, "a")
    assert claim(broker, "b")
    assert read(broker, "a") == {}
    assert read(broker, "record") == {"level": "info"}


# Topics


def test_a_message_reaches_every_listener_of_its_topic_in_order(broker):
    first: list[str] = []
    second: list[str] = []
    broker.subscribe("changes", first.append)
    broker.subscribe("changes", second.append)
    broker.subscribe("other", lambda _: pytest.fail("another topic"))
    for message in ["a", "b", "", "ä\0\n" * 10_000]:
        done(broker.publish("changes", message))
    eventually(lambda: len(second) == 4)
    assert first == second == ["a", "b", "", "ä\0\n" * 10_000]


def test_a_listener_hears_nothing_before_it_comes_nor_after_it_has_left(broker):
    heard: list[str] = []
    others: list[str] = []
    broker.subscribe("changes", others.append)
    done(broker.publish("changes", "before"))
    leave = broker.subscribe("changes", heard.append)
    stay = broker.subscribe("changes", heard.append)
    leave()
    leave()
    done(broker.publish("changes", "once"))
    eventually(lambda: "once" in others)
    stay()
    done(broker.publish("changes", "never"))
    eventually(lambda: "never" in others)
    assert heard == ["once"]


def test_who_comes_when_nobody_has_listened_hears_what_comes_then(broker):
    for turn in range(3):
        heard: list[str] = []
        leave = broker.subscribe("changes", heard.append)
        done(broker.publish("changes", f"{turn}"))
        eventually(lambda heard=heard: heard)
        assert heard == [f"{turn}"]
        leave()
        done(broker.publish("changes", "nobody listens"))


@pytest.mark.slow
def test_who_hears_all_has_missed_nothing(broker):
    for turn in range(2):
        heard: list[str] = []
        leave = broker.subscribe("changes", heard.append, lambda: pytest.fail("it has heard all"))
        done(broker.listening())
        messages = [f"{turn}/{number}" for number in range(300)]
        for message in messages:
            done(broker.publish("changes", message))
        eventually(lambda: len(heard) == 300)
        assert heard == messages
        leave()
        done(broker.publish("changes", "nobody listens"))


def test_listeners_may_come_and_go_while_a_message_is_told(broker):
    heard: list[str] = []

    def once(message: str) -> None:
        leave()
        heard.append(message)
        broker.subscribe("changes", heard.append)

    leave = broker.subscribe("changes", once)
    done(broker.publish("changes", "a"))
    eventually(lambda: heard == ["a"])
    done(broker.publish("changes", "b"))
    eventually(lambda: heard == ["a", "b"])


def test_a_subscription_may_end_in_the_middle_of_anything():
    broker = Memory()
    leave = broker.subscribe("changes", lambda _: pytest.fail("it has left"))

    def collect_garbage() -> float:
        leave()
        return 0.0

    finished(Memory(collect_garbage).write("a", {"level": "info"}, 1))
    broker._records._clock = collect_garbage
    finished(broker.write("a", {"level": "info"}, 60))
    finished(broker.publish("changes", "a"))


def test_a_listener_that_fails_is_logged_and_the_others_hear(broker, caplog):
    def fail(message: str) -> None:
        raise LookupError(message)

    heard: list[str] = []
    broker.subscribe("changes", fail)
    broker.subscribe("changes", heard.append)
    with caplog.at_level(logging.ERROR, "mcpkit"):
        done(broker.publish("changes", "a"))
        eventually(lambda: heard == ["a"])
    assert "changes" in caplog.text
    assert "LookupError: a" in caplog.text


def test_topics_and_keys_have_names_of_their_own(broker):
    broker.subscribe("a", lambda _: pytest.fail("nothing was published"))
    write(broker, "a", {"level": "info"})
    done(broker.publish("b", "nobody listens"))
    assert read(broker, "a") == {"level": "info"}
