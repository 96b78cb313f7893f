"""Measurements of a protected server: what was verified, fetched, refused, and known already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from mcpkit import Context, Server
from mcpkit.auth import Introspection, Jwt
from mcpkit.middleware import Telemetry
from tests.helpers.identity_provider import RESOURCE_SERVER, providing
from tests.helpers.raw_client import serving
from tests.helpers.servers.protected import ISSUER, Table, bearer

pytestmark = pytest.mark.anyio

URL = "https://mcp.example.com/mcp"


def measured(reader: InMemoryMetricReader) -> dict[str, list[tuple[dict[str, Any], int]]]:
    """Return each metric's attributes and counts."""
    data = reader.get_metrics_data()
    if data is None:
        return {}
    found: dict[str, list[tuple[dict[str, Any], int]]] = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        points: Any = metric.data.data_points
        found[metric.name] = [
            (dict(point.attributes), point.count if hasattr(point, "count") else point.value)
            for point in points
        ]
    return found


async def test_verifications_and_refusals_are_measured(schema_dir: Path) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    table = Table(ISSUER)
    server = Server("notes", auth=table, scopes={"mail": "Send mail"})
    server.middleware(Telemetry(meter_provider=provider))

    @server.tool
    async def whoami(ctx: Context) -> str:
        """Say who asks."""
        return str(ctx.principal.subject)

    @server.tool(scopes="mail")
    async def send() -> str:
        """Send mail."""
        return "sent"

    async with serving(server, schema_dir, public_url=URL, allowed_hosts=["localhost"]) as client:
        for _ in range(4):
            assert (await client.call_tool("whoami", headers=bearer("ada")).whole()).status == 200
        assert (await client.call_tool("send", headers=bearer("ada")).whole()).status == 403
        for token in (bearer("bad1"), bearer("bad2"), {}):
            assert (await client.call_tool("whoami", headers=token).whole()).status == 401
        table.is_down = True
        assert (await client.call_tool("whoami", headers=bearer("bob")).whole()).status == 503
    found = measured(reader)
    provider.shutdown()
    assert found["mcpkit.auth.verification.duration"] == [
        ({"mcpkit.auth.outcome": "verified"}, 1),
        ({"mcpkit.auth.outcome": "invalid"}, 2),
        ({"mcpkit.auth.outcome": "unavailable"}, 1),
    ]
    assert found["mcpkit.auth.refusals"] == [
        ({"error.type": "insufficient_scope", "http.response.status_code": 403}, 1),
        ({"error.type": "invalid_token", "http.response.status_code": 401}, 2),
        ({"error.type": "no_token", "http.response.status_code": 401}, 1),
        ({"error.type": "unavailable", "http.response.status_code": 503}, 1),
    ]
    assert found["mcpkit.auth.known_tokens"] == [({}, 4)]
    assert "mcpkit.auth.fetch.duration" not in found
    assert found["mcp.server.operation.duration"]


@pytest.mark.parametrize("opaque", [False, True])
async def test_requests_to_an_identity_provider_are_measured(schema_dir: Path, opaque: bool) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    with providing(opaque=opaque) as issuer:
        name, secret = RESOURCE_SERVER
        verifier = (
            Introspection(issuer.issuer, client_id=name, client_secret=secret)
            if opaque
            else Jwt(issuer.issuer)
        )
        server = Server("notes", auth=verifier)
        server.middleware(Telemetry(meter_provider=provider))
        async with serving(server, schema_dir, public_url=URL, allowed_hosts=["localhost"]) as client:
            token = {"authorization": f"Bearer {issuer.token('ada', 'notes:read', URL)}"}
            for _ in range(3):
                assert (await client.ask("server/discover", headers=token).whole()).status == 200
            if opaque:
                with issuer.down("failing"):
                    other = {"authorization": "Bearer unknown"}
                    assert (await client.ask("server/discover", headers=other).whole()).status == 503
            await verifier.aclose()
    found = measured(reader)
    provider.shutdown()
    fetched = {
        (each["mcpkit.auth.fetched"], each["mcpkit.auth.outcome"]): count
        for each, count in found["mcpkit.auth.fetch.duration"]
    }
    asked = {("introspection", "fetched"): 1, ("introspection", "failed"): 1}
    assert fetched == {("metadata", "fetched"): 1} | (asked if opaque else {("keys", "fetched"): 1})
