"""Servers in the process of an agent, through the routing of the agents' own SDKs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.agent_sdks import AGENTS, Environment

CONTRACT = Path(__file__).parent / "contract.py"
CASES = re.findall(r"^async def (\w+)\(house: House\)", CONTRACT.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("environment", AGENTS, ids=str)
def test_contract(environment: Environment, case: str) -> None:
    outcomes = environment.outcomes(CONTRACT)
    assert set(outcomes) == set(CASES)
    assert outcomes[case] is None, outcomes[case]
