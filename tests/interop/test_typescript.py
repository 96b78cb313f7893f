"""The official TypeScript clients, 1.x and 2.x, as judges."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.interop.cutting_proxy import cutting
from tests.interop.journey import HANDSHAKE, STATELESS, TRANSPORTS, check, check_end, check_identity

CLIENT_2 = {"not_found": -32602}  # this client makes one error of both eras' codes


def outcome(finished: Any) -> dict[str, Any]:
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_sdk_1(run_driver, reach, transport):
    seen = outcome(run_driver("sdk_1.mjs", *reach(transport)))
    check_identity(seen)
    check(seen, HANDSHAKE)
    check_end(seen, has_session=transport == "http")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("mode", "revision"), [("legacy", HANDSHAKE), ("auto", STATELESS), (STATELESS, STATELESS)]
)
def test_client_2(run_driver, reach, transport, mode, revision):
    seen = outcome(run_driver("client_2.mjs", mode, *reach(transport)))
    check_identity(seen)
    check(seen, revision, **CLIENT_2)
    check_end(seen, has_session=transport == "http" and revision == HANDSHAKE)


@pytest.mark.parametrize(
    ("driver", "options"),
    [(["sdk_1.mjs"], {}), (["client_2.mjs", "legacy"], CLIENT_2)],
    ids=["sdk_1", "client_2"],
)
def test_a_cut_connection_loses_nothing(run_driver, http_server, driver, options):
    """The stream of a call is cut in its middle, and the stream of the session when a change was told."""
    with cutting(http_server.origin, b'"at 2"', b"tools/list_changed") as proxy:
        seen = outcome(run_driver(*driver, "http", f"{proxy.origin}/mcp"))
    assert proxy.markers == []
    assert proxy.resumptions >= 2
    check(seen, HANDSHAKE, **options)
    check_end(seen, has_session=True)
