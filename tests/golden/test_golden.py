"""Results of recorded inputs are unchanged: byte streams, signatures and refused registrations.

`python -m tests.golden.test_golden` records the corpus again. A difference needs a line in the changelog.
"""

import asyncio
import hashlib
import json
import logging
from pathlib import Path

import pydantic
import pytest

from tests.golden.server import make_server
from tests.golden.signatures import record_registrations, record_signatures
from tests.golden.streams import record_http, record_pipe

FOLDER = Path(__file__).parent
PYDANTIC = pydantic.VERSION.rpartition(".")[0]
SIGNATURES = {f"signatures-{first}": range(first, first + 100) for first in range(0, 500, 100)}
NAMES = ("pipe", "http", "registrations", *SIGNATURES)

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]


async def corpus(name: str) -> dict[str, list[str]]:
    """Return one part of the corpus as the package of today makes it: results by input."""
    if name == "registrations":
        return dict(record_registrations())
    if name in SIGNATURES:
        recorded = record_signatures(SIGNATURES[name])
    else:
        recorded = (record_pipe if name == "pipe" else record_http)(make_server())
    return {key: results async for key, results in recorded}


def load(name: str) -> dict[str, list[str]]:
    """Return one part of the recorded corpus; it holds texts of one minor version of pydantic."""
    entries = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    if entries["pydantic"] != PYDANTIC:
        pytest.skip(f"recorded with pydantic {entries['pydantic']}; this is {PYDANTIC}")
    return {key: [entries["texts"][each] for each in results] for key, results in entries["results"].items()}


def save(name: str, results: dict[str, list[str]]) -> None:
    """Record one part of the corpus; a text that occurs several times is written once."""
    texts = {_id(text): text for each in results.values() for text in each}
    entries = {
        "pydantic": PYDANTIC,
        "texts": dict(sorted(texts.items())),
        "results": {key: [_id(text) for text in each] for key, each in results.items()},
    }
    lines = json.dumps(entries, indent=0)
    (FOLDER / f"{name}.json").write_text(lines + "\n", "utf-8")


def _id(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:10]


@pytest.mark.parametrize("name", NAMES)
async def test_results_are_as_recorded(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    recorded, now = load(name), await corpus(name)
    assert list(now) == list(recorded)
    changed = [f"{key}\n  was {recorded[key]}\n  is  {now[key]}" for key in now if now[key] != recorded[key]]
    assert not changed, f"{len(changed)} differ:\n" + "\n".join(changed[:20])


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    for part in NAMES:
        save(part, asyncio.run(corpus(part)))
