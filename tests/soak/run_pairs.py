"""Ten thousand pairs of principals at two workers, of whom none may be told anything of another.

make pairs ARGS="[pairs] [seed]"    10,000 pairs from the seed 1 when nothing is given

See `tests/helpers/pairs.py`. It says from time to time what has happened so far, and ends with the first leak.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.helpers.pairs import AT_ONCE, World

TOLD = 20 * AT_ONCE


async def main(pairs: int, seed: int) -> None:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with World(Path(folder), seed) as world:
            for start in range(0, pairs, TOLD):
                await world.run(min(TOLD, pairs - start))
                said = ", ".join(f"{count:,} {what}" for what, count in sorted(world.counts.items()))
                print(f"{time.monotonic() - begun:6.0f} s: {said}", flush=True)
    print("nothing of one was seen by another")


if __name__ == "__main__":
    logging.getLogger("mcpkit").setLevel(logging.ERROR)
    arguments = [int(each) for each in sys.argv[1:]]
    asyncio.run(main(*(arguments + [10_000, 1][len(arguments) :])))
