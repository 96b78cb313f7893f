"""The table of scopes: what is implied, what is refused, what a challenge names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Principal, RegistrationError, Scope
from mcpkit.state.principal import client, user
from mcpkit.state.scopes import Scopes, scope_names

NOTES = Scopes(
    {
        "notes:read": Scope("Read notes", default=True),
        "notes:write": Scope("Change notes", implies=["notes:read"]),
        "notes:admin": Scope("Everything", implies=["notes:write"]),
        "other": "Something else",
    }
)


def test_broader_scopes_imply_narrower_ones_all_the_way() -> None:
    assert NOTES.expanded({"notes:admin"}) == {"notes:admin", "notes:write", "notes:read"}
    assert NOTES.expanded({"notes:read", "openid"}) == {"notes:read", "openid"}
    assert NOTES.of(Principal("ada", {"notes:write"})).scopes == {"notes:write", "notes:read"}
    assert NOTES.defaults == ("notes:read",)


def test_a_principal_that_gains_nothing_stays_the_same() -> None:
    nobody, ada = Principal(), Principal("ada", {"other"})
    assert NOTES.of(nobody) is nobody
    assert NOTES.of(ada) is ada


def test_what_is_implied_need_not_be_named() -> None:
    assert NOTES.reduced(["other", "notes:read", "notes:admin", "x", "notes:write"]) == (
        "notes:admin",
        "other",
        "x",
    )


names = st.sampled_from(["a", "b", "c", "d"])


@given(st.dictionaries(names, st.lists(names, max_size=3), min_size=4, max_size=4), st.lists(names))
def test_fewest_scopes_say_the_same(implied: dict[str, list[str]], wanted: list[str]) -> None:
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
def test_a_table_that_is_none_is_refused(table: object, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        Scopes(table)  # type: ignore[arg-type]


def test_a_name_that_is_not_in_the_table_is_refused_with_the_right_one() -> None:
    with pytest.raises(RegistrationError, match="did you mean 'notes:write'"):
        NOTES.check("tool 'add'", ["notes:writ"])
    NOTES.check("tool 'add'", ["notes:write"])
    Scopes().check("tool 'add'", ["anything"])


@pytest.mark.parametrize("given_", [None, 3, ["a b"], [1], ""])
def test_what_names_no_scopes_is_refused(given_: object) -> None:
    with pytest.raises(RegistrationError, match=r"tool 'x': scopes="):
        scope_names("tool 'x': scopes=", given_)


def test_one_scope_or_several() -> None:
    assert scope_names("x", "a") == ("a",)
    assert scope_names("x", ["a", "b"]) == ("a", "b")


issuers = st.sampled_from(["https://a.example", "https://a.example/x", "https://b.example"])


@given(issuers, st.text(min_size=1), issuers, st.text(min_size=1))
def test_no_two_have_the_same_id(issuer: str, subject: str, other: str, name: str) -> None:
    assert (user(issuer, subject).id == user(other, name).id) == ((issuer, subject) == (other, name))
    assert user(issuer, subject).id != client(other, name).id


def test_what_a_principal_shows_is_no_claim() -> None:
    ada = user("https://a.example", "ada", {"x"}, client_id="c", claims={"email": "ada@example.com"})
    assert "example.com" not in repr(ada)
    assert ada.claims["email"] == "ada@example.com"
    assert ada == user("https://a.example", "ada", {"x"}, client_id="c")
    assert ada != user("https://a.example", "ada", {"x"}, client_id="d")
    with pytest.raises(TypeError):
        ada.claims["email"] = ""  # type: ignore[index]
    with pytest.raises(TypeError, match="client_id must be text"):
        Principal("x", client_id=1)  # type: ignore[arg-type]
