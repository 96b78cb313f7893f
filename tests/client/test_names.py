"""Names of what several servers have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpkit.client.names import LONGEST, Names


def test_of_one_server_everything_keeps_its_name() -> None:
    names = Names(["weather"])
    assert names.given({"weather": ["forecast", "x" * 100]}) == {
        "forecast": ("weather", "forecast"),
        "x" * 100: ("weather", "x" * 100),
    }
    assert names.likely("anything") == ("weather", "anything")


def test_of_several_servers_names_begin_with_theirs() -> None:
    names = Names(["weather", "maps"])
    assert names.given({"weather": ["find"], "maps": ["find"]}) == {
        "weather_find": ("weather", "find"),
        "maps_find": ("maps", "find"),
    }
    assert names.likely("maps_find") == ("maps", "find")
    assert names.likely("other_find") is None
    assert names.is_certain("maps_find")


def test_names_hold_what_all_models_take() -> None:
    names = Names(["my server.v2/eu", "b"])
    assert names.given({"my server.v2/eu": ["find"]}) == {"my_server_v2_eu_find": ("my server.v2/eu", "find")}


def test_servers_whose_names_become_alike_are_numbered() -> None:
    names = Names(["a b", "a_b", "a.b"])
    given_names = names.given({"a b": ["c"], "a_b": ["c"], "a.b": ["c"]})
    assert list(given_names) == ["a_b_c", "a_b_2_c", "a_b_3_c"]


def test_a_name_that_is_too_long_ends_in_a_digest_of_it() -> None:
    names = Names(["weather", "maps"])
    long = ["x" * 57, "x" * 58, "x" * 57 + "y"]
    [first, second] = names.given({"weather": long[1:]})
    assert len(first) == len(second) == LONGEST
    assert first != second
    assert first == "weather_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_" + first[-8:]
    assert list(names.given({"weather": [long[1]]})) == [first]
    assert not names.is_certain(first)


def test_a_server_cannot_take_a_name_that_looks_like_that_of_another() -> None:
    names = Names(["a", "a_b"])
    first, second = names.given({"a": ["b_c"], "a_b": ["c"]}).items()
    assert first[0].startswith("a_b_c_")
    assert first[1] == ("a", "b_c")
    assert second == ("a_b_c", ("a_b", "c"))
    assert names.is_certain("a_b_c")
    assert not names.is_certain(first[0])


SERVERS = st.lists(st.text("ab_ .", max_size=3), min_size=2, max_size=4, unique=True)
TOOLS = st.lists(
    st.text("ab_", min_size=1, max_size=3) | st.text("ab", min_size=60, max_size=66), unique=True
)


@given(SERVERS.flatmap(lambda servers: st.fixed_dictionaries(dict.fromkeys(servers, TOOLS))))
def test_each_name_means_one_thing_and_all_have_one(listed: dict[str, list[str]]) -> None:
    names = Names(list(listed))
    meant = names.given(listed)
    assert sorted(meant.values()) == sorted(
        (server, own) for server, found in listed.items() for own in found
    )
    assert all(len(name) <= LONGEST for name in meant)
    for name, place in meant.items():
        if names.is_certain(name):
            assert names.likely(name) == place
