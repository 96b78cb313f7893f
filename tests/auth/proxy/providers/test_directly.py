"""What hosts do where a server names the provider itself as its authorization server: why there is a proxy."""

from __future__ import annotations

import pytest

from mcpkit.client.authorization.checking.hosts import HOSTS, hosts_at
from tests.auth.proxy.providers.journeys import found_directly
from tests.helpers.provider_sites import Entra, GitHub, Google, Provider

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("kind", "errors", "notes"),
    [
        (GitHub, {"no-registration"}, set()),
        (Google, {"no-registration"}, set()),
        (Entra, {"no-registration", "no-pkce"}, {"no-iss"}),
    ],
)
async def test_nobody_logs_in_by_themselves(kind: type[Provider], errors: set[str], notes: set[str]) -> None:
    found = await found_directly(kind)
    assert {each.code for each in found if each.severity == "error"} == errors
    assert {each.code for each in found if each.severity == "note"} == notes
    assert {each.code for each in found if each.severity == "warning"} == {
        "cors",
        "march-foreign-issuer",
        "unknown-scopes",
    }
    stopped = {host.name for host in HOSTS if "no-pkce" in errors and host.group in {"Claude", "ChatGPT"}}
    for name, outcome in hosts_at(found).items():
        if name in stopped:
            assert outcome == "does not log in (no-pkce)"
        else:
            assert outcome.startswith("needs a client ID, which its user enters")
