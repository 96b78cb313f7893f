"""The official TypeScript clients, 1.x and 2.x, as judges."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interop.journey import COMMAND, HANDSHAKE, STATELESS, check, check_identity


def outcome(finished: Any) -> dict[str, Any]:
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""
    return json.loads(finished.stdout)


def test_sdk_1(run_driver):
    seen = outcome(run_driver("sdk_1.mjs", *COMMAND))
    check_identity(seen)
    check(seen, HANDSHAKE)


@pytest.mark.parametrize(
    ("mode", "revision"), [("legacy", HANDSHAKE), ("auto", STATELESS), (STATELESS, STATELESS)]
)
def test_client_2(run_driver, mode, revision):
    seen = outcome(run_driver("client_2.mjs", mode, *COMMAND))
    check_identity(seen)
    check(seen, revision, not_found=-32602)  # this client makes one error of both eras' codes
