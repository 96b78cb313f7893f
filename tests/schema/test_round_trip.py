"""What goes out comes back: a tool that returns its argument is the identity, for every type of supported.py.

The judges of what travels are jsonschema and, in a process of Node, ajv as the TypeScript clients set it up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.helpers.drawn_json import allowed
from tests.helpers.drawn_types import HOLDERS, TYPES
from tests.helpers.echoed import REVISIONS, Echo
from tests.helpers.node_judge import NodeJudge, node_judge
from tests.helpers.supported import Supported, is_same
from tests.helpers.supported_foreign import EVERY

pytestmark = pytest.mark.long

CHECKER = Draft202012Validator.FORMAT_CHECKER
QUICKLY = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)


@pytest.fixture(scope="module")
def judge() -> Iterator[NodeJudge]:
    with node_judge() as process:
        yield process


def check(entry: Supported, echo: Echo, value: Any, revision: str, judge: NodeJudge) -> None:
    """Pass a value through a tool, and hold what travels and what comes back against the rules."""
    data = asyncio.run(echo.pass_on(value, revision))
    same = entry.is_same or is_same
    assert same(value, echo.received), f"{value!r} came back as {echo.received!r}"
    schemas = [echo.schema] if echo.output is None else [echo.schema, echo.output.schema]
    for schema in schemas:
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema, format_checker=CHECKER).validate(data)
        assert judge.objection(schema, data) is None, (schema, data)


@pytest.mark.parametrize("entry", EVERY, ids=[entry.name for entry in EVERY])
def test_a_type_by_itself(entry: Supported, judge: NodeJudge) -> None:
    echo = Echo(entry.annotation)

    @settings(QUICKLY, max_examples=8)
    @given(entry.values, st.sampled_from(REVISIONS))
    def run(value: Any, revision: str) -> None:
        check(entry, echo, value, revision, judge)

    run()
    for revision in REVISIONS:
        check(entry, echo, entry.sample, revision, judge)


@pytest.mark.parametrize("entry", EVERY, ids=[entry.name for entry in EVERY])
def test_a_type_in_each_that_may_hold_it(entry: Supported, judge: NodeJudge) -> None:
    for holder in HOLDERS.values():
        if not holder.may_hold(entry):
            continue
        held = holder.hold(entry)
        echo = Echo(held.annotation)

        @settings(QUICKLY, max_examples=3)
        @given(held.values, st.sampled_from(REVISIONS))
        def run(value: Any, revision: str) -> None:
            check(held, echo, value, revision, judge)

        run()


@settings(QUICKLY, max_examples=250)
@given(TYPES, st.data(), st.sampled_from(REVISIONS))
def test_a_type_in_others(judge: NodeJudge, entry: Supported, data: st.DataObject, revision: str) -> None:
    value = data.draw(entry.values, label=str(entry.annotation))
    check(entry, Echo(entry.annotation), value, revision, judge)


@pytest.mark.parametrize("entry", EVERY, ids=[entry.name for entry in EVERY])
def test_what_the_schema_of_a_type_allows_is_accepted(entry: Supported, judge: NodeJudge) -> None:
    accepted(entry, judge, 12)


@settings(QUICKLY, max_examples=100)
@given(TYPES)
def test_what_any_schema_allows_is_accepted(judge: NodeJudge, entry: Supported) -> None:
    accepted(entry, judge, 3)


def accepted(entry: Supported, judge: NodeJudge, times: int) -> None:
    echo = Echo(entry.annotation)

    @settings(QUICKLY, max_examples=times)
    @given(allowed(echo.schema, echo.schema))
    def run(data: Any) -> None:
        Draft202012Validator(echo.schema, format_checker=CHECKER).validate(data)
        assert judge.objection(echo.schema, data) is None
        result = asyncio.run(echo.take(data))
        assert not result.is_error or (not entry.is_exact and result.text.startswith("x")), result.text

    run()
