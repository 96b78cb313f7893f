"""An issuer that changes its keys, is flooded, and goes down, as two processes of uvicorn see it."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from tests.helpers.fake_idp import KeyIssuer, serve_keys
from tests.helpers.serving import PATIENCE, Served, from_file
from tests.helpers.signed_tokens import Signer

pytestmark = pytest.mark.long

WORKERS = 2
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {
        "name": "whoami",
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "whoami",
}

needs_posix = pytest.mark.skipif(
    sys.platform == "win32", reason="uvicorn's processes share a socket there not"
)


def ask(url: str, provider: KeyIssuer, signer: Signer, **changes: Any) -> httpx2.Response:
    """Call the tool on a connection of its own, with a token that nobody has seen before."""
    now = time.time()
    told = {
        "iss": provider.url,
        "iat": now,
        "exp": now + 600,
        "jti": f"{now} {threading.get_ident()}",
        **changes,
    }
    headers = {**HEADERS, "Authorization": f"Bearer {signer.token(**told)}"}
    return httpx2.post(f"{url}/mcp", json=CALL, headers=headers, timeout=PATIENCE, verify=False)


def started(provider: KeyIssuer) -> Served:
    served = Served([*from_file("tests.helpers.jwt_app:app"), "--workers", str(WORKERS)], ISSUER=provider.url)
    served.wait_for("Application startup complete", times=WORKERS)
    return served


@needs_posix
def test_no_valid_request_is_lost_while_keys_change_and_a_flood_asks_once_a_process() -> None:
    signers = [Signer("ES256", f"key {number}") for number in range(5)]
    with serve_keys(signers[0]) as provider, started(provider) as served:
        answers: Counter[int] = Counter()
        pids: set[str] = set()
        current = signers[0]
        is_over = threading.Event()
        done = [0] * 4

        def load(number: int) -> None:
            while not is_over.is_set():
                answer = ask(served.origin, provider, current)
                answers[answer.status_code] += 1
                if answer.status_code == 200:
                    pids.add(answer.json()["result"]["content"][0]["text"].partition(" ")[2])
                done[number] += 1

        threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for older, newer in pairwise(signers):
            provider.publish(older, newer)  # what is on its way may be by the older one
            current = newer
            before = list(done)
            deadline = time.monotonic() + PATIENCE
            while any(now < then + 4 for now, then in zip(done, before, strict=True)):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        is_over.set()
        for thread in threads:
            thread.join()
        assert set(answers) == {200}
        assert len(pids) == WORKERS
        assert provider.fetches <= len(signers) * WORKERS

        before_flood = provider.fetches
        for number in range(100):
            refused = ask(served.origin, provider, current, header={"kid": f"unknown {number}"})
            assert refused.status_code == 401
            assert 'error="invalid_token"' in refused.headers["www-authenticate"]
        assert provider.fetches - before_flood <= WORKERS
        assert ask(served.origin, provider, current).status_code == 200
        served.stop()


@needs_posix
def test_a_provider_that_is_down_is_503_and_it_comes_back_by_itself() -> None:
    signer = Signer("ES256", "key")
    with serve_keys(signer) as provider, started(provider) as served:
        provider.break_down()
        for _ in range(6):
            answer = ask(served.origin, provider, signer)
            assert answer.status_code == 503
            assert 1 <= int(answer.headers["retry-after"]) <= 5
            assert "www-authenticate" not in answer.headers

        provider.mend()
        deadline = time.monotonic() + PATIENCE
        while ask(served.origin, provider, signer).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        served.stop()
