"""A few pairs of `make pairs`, and the check that finds a leak."""

from pathlib import Path

import pytest

from tests.soak.pairs import Actor, LeakedError, World

pytestmark = pytest.mark.slow


async def test_no_response_names_another_principal(tmp_path: Path) -> None:
    async with World(tmp_path, 1) as world:
        await world.run(8)
    counts = world.counts
    assert counts["pairs"] == 8
    assert min(counts[each] for each in ("adoptions", "states", "updates", "intrusions")) > 0


def test_check_raises_for_another_principal(tmp_path: Path) -> None:
    ada = Actor(World(tmp_path, 1), "https://one.example", "ada", "c")
    assert ada.check(f"who=<{ada.mark}> inbox://{ada.box}", ada.mark)
    for leak in ("who=<eve>", "who=<anonymous>", "inbox://00ff"):
        with pytest.raises(LeakedError):
            ada.check(leak, ada.mark)
