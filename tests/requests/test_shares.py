"""Places that clients share: whatever each of them does, none takes more than it leaves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit.calls.shares import Anonymous, Shares
from mcpkit.common.addresses import caller_at
from mcpkit.common.errors import BusyError

CALLERS = st.sampled_from(["ada", "bob", "eve", None])


@given(st.integers(1, 40), st.lists(st.tuples(CALLERS, st.integers(1, 50), st.booleans()), max_size=40))
def test_shares_of_a_caller_never_exceed_what_is_left(
    limit: int, steps: list[tuple[str | None, int, bool]]
) -> None:
    shares = Shares()
    held: dict[str | None, int] = {}
    for caller, times, gives_back in steps:
        for _ in range(times):
            own, others = held.get(caller, 0), sum(held.values()) - held.get(caller, 0)
            if gives_back and own:
                shares.give_back(caller)
                held[caller] = own - 1
            elif not gives_back and shares.has_room(limit, caller):
                shares.take(caller)
                held[caller] = own + 1
                assert sum(held.values()) <= limit
                assert caller is None or own < limit - own - others
            elif not gives_back:
                assert own + others >= limit or (caller is not None and own >= limit - own - others)
        assert shares.taken == sum(held.values())
        assert caller is None or shares.taken_by(caller) == held.get(caller, 0)
    for caller, count in held.items():
        for _ in range(count):
            shares.give_back(caller)
    assert shares.taken == 0
    assert shares._taken_by == {}  # of clients that have gone, nothing is kept


GUESTS = [Anonymous(name) for name in ("one", "two", "three")]


def test_shares_may_yield_by_caller() -> None:
    shares = Shares()
    one, two, three = GUESTS
    assert shares.may_yield(8, one, "ada")
    shares.take(one, 2)
    assert [shares.may_yield(8, one, holder) for holder in (one, two, "ada", None)] == [
        True,
        False,
        False,
        False,
    ]
    shares.take(two, 2)
    assert [shares.may_yield(8, three, holder) for holder in (one, two, "ada")] == [True, True, False]
    assert shares.may_yield(8, "ada", one)
    text = shares.excess(8, three)
    assert text.startswith("(4 from clients without a token; one client has at most as many of 8")


def test_shares_error_has_the_reason() -> None:
    shares = Shares()
    for _ in range(2):
        shares.take("principal 'eve'")
    with pytest.raises(BusyError) as caught:
        shares.check(4, "principal 'eve'", "requests are running")
    assert caught.value.message == (
        "Too many requests are running (2 from principal 'eve'; one client has at most as many of 4 as are left for "
        "others). Try again in 1 s"
    )
    shares.check(4, "principal 'ada'", "requests are running")
    shares.take(None)
    shares.take(None)
    with pytest.raises(BusyError) as caught:
        shares.check(4, "principal 'ada'", "requests are running")
    assert caught.value.message == "Too many requests are running (4). Try again in 1 s"


@pytest.mark.parametrize(
    ("host", "caller"),
    [
        ("203.0.113.7", "address 203.0.113.7"),
        ("::ffff:203.0.113.7", "address 203.0.113.7"),
        ("2001:db8:1:2::7", "address 2001:db8:1:2::/64"),
        ("fe80::1%eth0", "address fe80::/64"),
        ("no:address", "address no:address"),
        ("203.0.113.7:50123", "address 203.0.113.7"),
        ("[2001:db8:1:2::7]:50123", "address 2001:db8:1:2::/64"),
        ("127.0.0.1:50123", None),
        ("127.0.0.1", None),
        ("", None),
        ("::1", None),
    ],
)
def test_caller_at_groups_addresses(host: str, caller: str | None) -> None:
    assert caller_at(host) == caller
