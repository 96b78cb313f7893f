"""Audit events, and scopes: log records, hooks, pseudonyms, limits, and which scopes imply others."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Principal, RegistrationError, Scope
from mcpkit.auth import AuditEvent, AuditLog, AuditMeter
from mcpkit.identity.principals_and_scopes import Scopes, user
from mcpkit.storage.encryption_keys import Keys
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock

ISSUER = "https://id.example.com"

ADA = user(ISSUER, "ada", client_id="notes", claims={"email": "ada@example.com", "name": "Ada L."})


@pytest.fixture
def audit(clock: Clock) -> AuditLog:
    return AuditLog(lambda: Keys("a secret of some length", "notes"), clock)


@pytest.fixture
def events(audit: AuditLog) -> list[AuditEvent]:
    received: list[AuditEvent] = []
    audit(received.append)
    return received


def test_event_is_logged_with_its_attributes_and_no_claims(audit: AuditLog, caplog) -> None:
    caplog.set_level(logging.INFO, "mcpkit.audit")
    audit.emit("step_up", ADA, scopes=["notes:write", "mail"], resource="https://e.example/mcp")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("mcpkit.audit", "INFO")
    assert record.getMessage() == (
        f"step_up principal='{ISSUER}#sub=ada' client_id='notes' issuer='{ISSUER}' "
        "scopes=('mail', 'notes:write') resource='https://e.example/mcp'"
    )
    attributes = {name: value for name, value in vars(record).items() if name.startswith("mcp_") and value}
    assert attributes == {
        "mcp_event": "step_up",
        "mcp_principal": f"{ISSUER}#sub=ada",
        "mcp_client_id": "notes",
        "mcp_issuer": ISSUER,
        "mcp_scopes": ("mail", "notes:write"),
        "mcp_resource": "https://e.example/mcp",
    }
    assert "ada@example.com" not in str(vars(record))
    assert "Ada L." not in str(vars(record))


@each_row(("principal", "begins"), [
    (user(ISSUER, "ada@example.com"), f"{ISSUER}#sub=~"),
    (Principal("ada@example.com"), "~"),
    (user(ISSUER, "line\nbreak"), f"{ISSUER}#sub=~"),
    (user(ISSUER, "x" * 5000), f"{ISSUER}#sub=~"),
])  # fmt: skip
def test_subject_that_may_be_an_address_is_logged_as_a_keyed_hash(audit, events, principal, begins) -> None:
    other = AuditLog(lambda: Keys("another secret of some length", "notes"))
    other(events.append)
    for log in (audit, audit, other):
        log.emit("login", principal)
    first, second, keyed_otherwise = (event.principal for event in events[-3:])
    assert first.startswith(begins)
    assert len(first) == len(begins) + 16
    assert first == second != keyed_otherwise


def test_name_of_replaces_the_principal_and_long_values_are_truncated(audit, events) -> None:
    audit.name_of = lambda principal: f"user of {principal.issuer}"
    audit.emit("login", ADA)
    audit.emit("refusal", None, detail="x" * 5000, scopes=["y" * 5000])
    assert [event.principal for event in events] == [f"user of {ISSUER}", None]
    assert (len(events[1].detail or ""), len(events[1].scopes[0])) == (200, 200)


@pytest.mark.limit("refusals that the audit reports")
def test_refusals_are_limited_per_caller_and_in_total(audit, events, clock, caplog) -> None:
    caplog.set_level(logging.INFO, "mcpkit.audit")
    for _ in range(1000):
        audit.emit("refusal", status=401, caller="address 203.0.113.7")
    audit.emit("refusal", status=401, caller="address 203.0.113.8")
    assert [event.caller[-1] for event in events if event.caller] == ["7"] * 5 + ["8"]
    assert events[-1].suppressed == 995
    for number in range(1000):
        audit.emit("refusal", status=401, caller=f"address {number}")
    assert len(events) == len(caplog.records) == 100
    clock.now += 61
    audit.emit("refusal", ADA, status=403)
    assert events[-1].suppressed == 906
    clock.now += 61
    audit.emit("refusal", ADA, status=403)
    assert events[-1].suppressed == 0


def test_failing_hook_is_logged_and_other_hooks_run(audit, events, caplog) -> None:
    @audit
    def broken(event: AuditEvent) -> None:
        raise RuntimeError("no disk")

    audit(events.append)
    audit.emit("login", ADA)
    assert len(events) == 2
    assert "no disk" in caplog.text
    audit.name_of = lambda who: 1 / 0  # type: ignore[assignment, return-value]
    audit.emit("login", ADA)
    assert events[-1].principal is None


def test_meter_counts_every_refusal(audit: AuditLog, events: list[AuditEvent]) -> None:
    class Counter(AuditMeter):
        def __init__(self) -> None:
            self.refusals: list[tuple[int | None, str]] = []

        def refused(self, status: int | None, reason: str) -> None:
            self.refusals.append((status, reason))

    counter = Counter()
    audit.set_meters([counter])
    for _ in range(1000):
        audit.emit("refusal", status=401, reason="invalid_token")
    assert counter.refusals == [(401, "invalid_token")] * 1000
    assert len(events) == 5


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
def test_reduced_is_the_smallest_equivalent_list(implied: dict[str, list[str]], expected: list[str]) -> None:
    scopes = Scopes({name: Scope(name, implies=tuple(each)) for name, each in implied.items()})
    fewest = scopes.reduced(expected)
    assert scopes.expanded(fewest) == scopes.expanded(expected)
    for name in fewest:
        assert scopes.expanded(set(fewest) - {name}) != scopes.expanded(expected)


@pytest.mark.parametrize(("table", "problem"), [
    ({"a b": "x"}, "visible ASCII"), ({"": "x"}, "visible ASCII"), ({'a"': "x"}, "visible ASCII"),
    ({"offline_access": "x"}, "cannot use the scope offline_access"),
    ({"notes:write": Scope("x", implies=["note:read"])}, "implies 'note:read'"),
    ({1: "x"}, "a scope must be a string"), (["a"], "a mapping such as"),
    ({"a": 1}, "description of a Scope must be a string"),
])  # fmt: skip
def test_invalid_scope_table_is_refused(table: object, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=problem):
        Scopes(table)  # type: ignore[arg-type]


def test_check_suggests_the_name_of_an_unknown_scope() -> None:
    with pytest.raises(RegistrationError, match="did you mean 'notes:write'"):
        NOTES.check("tool 'add'", ["notes:writ"])
    NOTES.check("tool 'add'", ["notes:write"])
    Scopes().check("tool 'add'", ["anything"])
