"""The official TypeScript clients log in by the browser, and again for more."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browser import Login
from tests.helpers.identity_provider import providing
from tests.helpers.node import node_search_path
from tests.interop.authorization.user import DOCUMENT

DRIVERS = Path(__file__).parents[1] / "node"
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
FIRST = {HANDSHAKE: "initialize", STATELESS: "server/discover"}
SDK_1, CLIENT_2 = "authorized_sdk_1.mjs", "authorized_client_2.mjs"
WAYS = [
    (SDK_1, (), HANDSHAKE),
    (CLIENT_2, ("legacy",), HANDSHAKE),
    (CLIENT_2, ("auto",), STATELESS),
    (CLIENT_2, (STATELESS,), STATELESS),
]


def journey(
    driver: str, url: str, arguments: tuple[str, ...], log_in: Callable[[str], Login], **kept: Any
) -> dict[str, Any]:
    """Run a driver, and log in whenever it asks for that."""
    node = shutil.which("node", path=node_search_path())
    assert node is not None
    command = [node, DRIVERS / driver, json.dumps(kept), url, *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for line in process.stdout:
                said = json.loads(line)
                if "seen" in said:
                    return said
                process.stdin.write(json.dumps(log_in(said["authorize"]).answer) + "\n")
                process.stdin.flush()
        finally:
            process.kill()
        assert process.stderr is not None
        raise AssertionError(process.stderr.read())


@pytest.mark.parametrize(("driver", "arguments", "revision"), WAYS)
def test_logs_in_and_steps_up(guarded, user, driver, arguments, revision):
    # The SDK 1.x meets the wish for more scopes with a refresh where it can, which never has them.
    grants = ["authorization_code"] if driver == SDK_1 else None
    said = journey(driver, guarded.url, arguments, user.log_in, grants=grants)
    assert said["seen"] == {
        "revision": revision,
        "before": {"subject": "bob", "scopes": ["notes:read"]},
        "added": "added",
        "after": {"subject": "bob", "scopes": ["notes:read", "notes:write"]},
    }
    assert guarded.notes == ["a", "b"]
    assert len(user.logins) == 2
    assert guarded.challenges == [(401, FIRST[revision], False), (403, "tools/call add_note", True)]


def test_the_sdk_1_that_refreshes_gives_up(guarded, user):
    with pytest.raises(AssertionError, match="Server returned 403 after trying upscoping"):
        journey(SDK_1, guarded.url, (), user.log_in)
    assert guarded.notes == []
    assert len(user.logins) == 1
    refused = (403, "tools/call add_note", True)
    assert guarded.challenges == [(401, "initialize", False), refused, refused]


@pytest.mark.parametrize(("driver", "arguments", "revision"), WAYS)
def test_refreshes_without_the_user(guarded, identity_provider, user, driver, arguments, revision):
    kept = journey(CLIENT_2, guarded.url, ("auto",), user.log_in)["kept"]
    expired = identity_provider.token("bob", "notes:read", guarded.url, seconds=-60)
    kept["tokens"]["access_token"] = expired
    before = len(guarded.exchanges)
    said = journey(driver, guarded.url, arguments, user.log_in, **kept)
    assert said["seen"]["before"] == {"subject": "bob", "scopes": ["notes:read", "notes:write"]}
    assert said["seen"]["revision"] == revision
    assert len(user.logins) == 2, "both in the first run"
    [refusal] = [each for each in guarded.exchanges[before:] if each.status != 200 and each.status != 202]
    assert (refusal.status, refusal.message, refusal.has_token) == (401, FIRST[revision], True)
    assert 'error="invalid_token"' in refusal.challenge


def test_says_who_it_is_by_a_document(guard, user):
    with (
        providing(documents={DOCUMENT["client_id"]: DOCUMENT}) as provider,
        guard(provider.issuer) as guarded,
    ):
        said = journey(CLIENT_2, guarded.url, ("auto",), user.log_in, document=DOCUMENT["client_id"])
        assert provider.seen("/reg") == []
    assert said["seen"]["after"] == {"subject": "bob", "scopes": ["notes:read", "notes:write"]}
    assert "Documented" in user.logins[0].pages[1]
