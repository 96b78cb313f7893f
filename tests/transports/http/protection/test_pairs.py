"""Nothing of one principal is seen by another, whatever they do: `make pairs` has ten thousand of them do so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.pairs import Actor, LeakedError, World

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_of_one_is_seen_by_another(tmp_path: Path, seed: int) -> None:
    async with World(tmp_path, seed) as world:
        await world.run(24)
    counts = world.counts
    assert counts["pairs"] == 24
    assert min(counts[each] for each in ("adoptions", "states", "questions", "updates", "intrusions")) > 0


def test_a_leak_is_noticed(tmp_path: Path) -> None:
    ada = Actor(World(tmp_path, 1), "https://one.example", "ada", "c")
    assert ada.check(f"who=<{ada.mark}> inbox://{ada.box}", ada.mark)
    for leak in ("who=<eve>", "who=<nobody>", "inbox://00ff"):
        with pytest.raises(LeakedError):
            ada.check(leak, ada.mark)
