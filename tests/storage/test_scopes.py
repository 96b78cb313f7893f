"""The scope table of a server, and principals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Principal, RegistrationError, Scope
from mcpkit.state.scopes import Scopes

NOTES = Scopes(
    {
        "notes:read": Scope("Read notes", default=True),
        "notes:write": Scope("Change notes", implies=["notes:read"]),
        "notes:admin": Scope("Everything", implies=["notes:write"]),
        "other": "Something else",
    }
)


def test_expanded_adds_implied_scopes_transitively() -> None:
    assert NOTES.expanded({"notes:admin"}) == {"notes:admin", "notes:write", "notes:read"}
    assert NOTES.expanded({"notes:read", "openid"}) == {"notes:read", "openid"}
    assert NOTES.of(Principal("ada", {"notes:write"})).scopes == {"notes:write", "notes:read"}
    assert NOTES.defaults == ("notes:read",)


names = st.sampled_from(["a", "b", "c", "d"])


@given(st.dictionaries(names, st.lists(names, max_size=3), min_size=4, max_size=4), st.lists(names))
def test_reduced_is_the_smallest_equivalent_list(implied: dict[str, list[str]], wanted: list[str]) -> None:
    scopes = Scopes({name: Scope(name, implies=tuple(each)) for name, each in implied.items()})
    fewest = scopes.reduced(wanted)
    assert scopes.expanded(fewest) == scopes.expanded(wanted)
    for name in fewest:
        assert scopes.expanded(set(fewest) - {name}) != scopes.expanded(wanted)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"a b": "x"}, "visible ASCII"),
        ({"": "x"}, "visible ASCII"),
        ({'a"': "x"}, "visible ASCII"),
        ({"offline_access": "x"}, "for clients to ask"),
        ({"notes:write": Scope("x", implies=["note:read"])}, "implies 'note:read'"),
        ({1: "x"}, "a scope is a text"),
        (["a"], "a mapping such as"),
        ({"a": 1}, "described in words"),
    ],
)
def test_invalid_scope_table_is_refused(table: object, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        Scopes(table)  # type: ignore[arg-type]


def test_check_suggests_the_name_of_an_unknown_scope() -> None:
    with pytest.raises(RegistrationError, match="did you mean 'notes:write'"):
        NOTES.check("tool 'add'", ["notes:writ"])
    NOTES.check("tool 'add'", ["notes:write"])
    Scopes().check("tool 'add'", ["anything"])


# Principals
