"""mcpkit doctor at URLs: planted faults of servers, proxies and machines are found."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Collection, Mapping
from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from mcpkit import Server
from mcpkit.auth import StaticTokens
from mcpkit.cli.app import run
from mcpkit.cli.doctor.checks import reaching
from tests.helpers.authorization_server import granting
from tests.helpers.serving import HELPERS, free_ports, in_thread, in_thread_at, serve_nginx

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


PAGE = "http://localhost:6274"


SENT = "content-type, mcp-protocol-version, mcp-session-id, last-event-id"


def faulty_app(faults: Collection[str]) -> ASGIApp:
    """Return a server at `/mcp` with some faults; `cors` lets pages ask, as sound servers may, too."""
    sessions: set[str] = set()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await _answered(request, faults, sessions)
        if request.headers.get("origin") == PAGE and "cors" in faults and _is_allowed(request, faults):
            response.headers["Access-Control-Allow-Origin"] = PAGE
            if "cors-preflight" not in faults:
                response.headers["Access-Control-Allow-Headers"] = SENT
            if "cors-exposed" not in faults:
                response.headers["Access-Control-Expose-Headers"] = "Mcp-Session-Id"
        if "clock" in faults:
            response.headers["Date"] = formatdate(time() + 3600, usegmt=True)
        await response(scope, receive, send)

    return app


def _is_allowed(request: Request, faults: Collection[str]) -> bool:
    return request.method == "OPTIONS" or "cors-answer" not in faults


async def _answered(request: Request, faults: Collection[str], sessions: set[str]) -> Response:
    if request.url.path == "/sse" and request.method == "GET":
        endpoint = "http://elsewhere.example" if "endpoint-origin" in faults else ""
        named = "" if "buffered-events" in faults else f"event: endpoint\ndata: {endpoint}/messages\n\n"
        return Response(named, media_type="text/event-stream")
    if request.url.path != "/mcp" or "server-error" in faults:
        return Response(status_code=500 if "server-error" in faults else 404)
    origin, host = request.headers.get("origin", PAGE), request.headers.get("host", "")
    if (origin != PAGE and "foreign-origin" not in faults) or (
        not host.startswith("127.0.0.1") and "foreign-host" not in faults
    ):
        return Response(status_code=403)
    if request.method == "OPTIONS":
        return Response(status_code=204 if "cors" in faults else 405)
    session = request.headers.get("mcp-session-id")
    if session is not None and session not in sessions and "unknown-session" not in faults:
        return Response(status_code=404)
    if request.method == "GET":
        return Response("<html>", status_code=200 if "get-status" in faults else 405, media_type="text/html")
    if request.method == "DELETE":
        if "delete-fails" in faults:
            return Response(status_code=500)
        if "session-goes-on" not in faults:
            sessions.discard(session or "")
        return Response(status_code=204)
    if (
        request.headers.get("mcp-protocol-version", REVISIONS[-1]) not in REVISIONS
        and "revision-header" not in faults
    ):
        return Response(status_code=400)
    try:
        message: dict[str, Any] = await request.json()
    except ValueError:
        return Response(status_code=500 if "malformed-status" in faults else 400)
    if "id" not in message:
        return Response(status_code=200 if "notification-status" in faults else 202)
    return _result(message, faults, sessions)


def _result(message: dict[str, Any], faults: Collection[str], sessions: set[str]) -> Response:
    headers: dict[str, str] = {}
    method, params = message["method"], message.get("params", {})
    answer: dict[str, Any] = {"result": {}}
    if method == "initialize":
        asked = params["protocolVersion"]
        answer["result"] = {
            "protocolVersion": asked if asked in REVISIONS else REVISIONS[-1],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "faulty", "version": "1"},
        }
        headers["Mcp-Session-Id"] = f"session{' ' if 'session-id' in faults else '-'}{len(sessions)}"
        sessions.add(headers["Mcp-Session-Id"])
    elif method == "tools/list":
        answer["result"] = {"tools": []}
    elif method != "ping":
        answer = {"error": {"code": -32601, "message": "method not found"}}
    text = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer})
    if "content-type" in faults:
        return Response("<html>welcome</html>", media_type="text/html")
    return JSONResponse(json.loads(text), headers=headers)


sys.path.insert(0, str(HELPERS.parents[1] / "examples" / "weather"))


def shop(**options: Any) -> Any:
    server = Server("shop", **options)

    @server.tool
    def price(item: str) -> float:
        """Say what an item costs."""
        return 3.5

    return server.asgi()


def doctor(capfd: pytest.CaptureFixture[str], target: str, *options: str) -> tuple[int, dict[str, Any]]:
    """Return the status, and what is written as JSON; `codes` are those of the findings, in order."""
    capfd.readouterr()
    status = run(["doctor", target, "--json", *options])
    report: dict[str, Any] = json.loads(capfd.readouterr().out)
    report["codes"] = [each["code"] for each in report["findings"]]
    return status, report


@pytest.mark.parametrize(
    ("faults", "found"),
    [
        ("", []),
        ("cors", []),
        ("clock", ["clock"]),
        ("unknown-session", ["unknown-session", "session-goes-on"]),
        ("revision-header notification-status", ["notification-status", "revision-header"]),
        ("malformed-status get-status", ["malformed-status", "get-status"]),
        ("foreign-origin", ["foreign-origin"]),
        ("foreign-host", ["foreign-host"]),
        ("cors cors-preflight cors-exposed", ["cors-preflight", "cors-exposed"]),
        ("cors cors-answer", ["cors-answer"]),
        ("session-goes-on", ["session-goes-on"]),
        ("delete-fails", ["delete-fails"]),
        ("session-id", ["session-id", "client-fails"]),
        ("content-type", ["content-type"]),
    ],
)
def test_doctor_finds_planted_http_faults(
    faults: str, found: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    with in_thread(faulty_app(faults.split()), date_header=False) as origin:
        status, report = doctor(capfd, f"{origin}/mcp")
    assert report["codes"] == found, report
    assert status == (4 if "content-type" in found else 6 if found else 0)
    assert all(each["cure"] and "{" not in each["seen"] + each["cure"] for each in report["findings"])


@pytest.mark.parametrize(
    ("faults", "path", "found", "status"),
    [
        ("", "/nothing", "no-mcp", 4),
        ("server-error", "/mcp", "server-error", 4),
        ("endpoint-origin", "/sse", "endpoint-origin", 6),
        ("buffered-events", "/sse", "buffered-events", 6),
    ],
)
def test_doctor_stops_at_fatal_http_faults(
    faults: str, path: str, found: str, status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with in_thread(faulty_app(faults.split())) as origin:
        ended, report = doctor(capfd, origin + path)
    assert (report["codes"], ended) == ([found], status)


def test_doctor_finds_closed_connection(capfd: pytest.CaptureFixture[str]) -> None:
    def hang_up() -> None:
        listener.accept()[0].close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        hanging = threading.Thread(target=hang_up)
        hanging.start()
        status, report = doctor(capfd, f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
        hanging.join()
    assert (report["codes"], status) == (["closed"], 4)


PROXIED = """
    location / {{
        proxy_pass {url};
        proxy_set_header Host $http_host;
        {more}
    }}
"""


def test_doctor_finds_instances_without_shared_sessions(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for folder, secrets, found in (
        (
            "apart",
            ("one secret of the tests, long enough", "another secret of the tests, long"),
            ["no-affinity"],
        ),
        ("shared", ("one secret of the tests, long enough",) * 2, ["session-goes-on"]),
    ):
        (tmp_path / folder).mkdir()
        ports = free_ports()
        with in_thread(shop(secret_key=secrets[0])) as one, in_thread(shop(secret_key=secrets[1])) as other:
            servers = "".join(f"server {each.removeprefix('http://')};" for each in (one, other))
            locations = f"""{PROXIED.format(url="http://both", more="")} }}
                upstream both {{ {servers} }}
                server {{ listen 127.0.0.1:{free_ports().plain};"""
            with serve_nginx(ports, tmp_path / folder, locations) as proxy:
                status, report = doctor(capfd, f"{proxy.plain}/mcp")
        assert (report["codes"], status) == (found, 6 if found else 0), report


REDIRECTS = """
    location = /mcp {{ return 307 /mcp/; }}
    location = /old {{ return 301 {url}/mcp/; }}
    location = /down {{ return 307 http://localhost:{plain}/mcp/; }}
    location = /mcp/ {{ proxy_pass {url}/mcp; proxy_buffering off; proxy_set_header Host $http_host; }}
"""


def test_doctor_finds_redirects_certificates_and_unreachable_hosts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = free_ports()
    with (
        in_thread(shop()) as url,
        serve_nginx(ports, tmp_path, REDIRECTS.format(url=url, plain=ports.plain)) as proxy,
    ):
        status, report = doctor(capfd, f"{proxy.plain}/mcp")
        assert (report["codes"], status) == (["redirect-kept"], 6), report
        assert "several connections" in [each["step"] for each in report["steps"]], "the rest is seen, too"
        assert doctor(capfd, f"{proxy.plain}/old")[1]["codes"][0] == "redirect"
        status, report = doctor(capfd, f"{proxy.url}/mcp")
        assert (report["codes"], status) == (["tls"], 4), report
        assert "certificate" in report["findings"][0]["seen"]

        monkeypatch.setenv("SSL_CERT_FILE", str(proxy.authority))
        monkeypatch.setattr(reaching, "_SOON", 1e12)
        assert doctor(capfd, f"{proxy.url}/mcp/")[1]["codes"] == ["certificate-ends"]
        assert doctor(capfd, f"{proxy.url}/down")[1]["codes"][0] == "redirect-downgrade"
    for target, code in (
        ("http://127.0.0.1:1/mcp", "refused"),
        ("http://no-such-host.invalid/mcp", "dns"),
    ):
        status, report = doctor(capfd, target)
        assert (report["codes"], status) == ([code], 4)


def test_doctor_weather_example_has_no_findings_over_http(capfd: pytest.CaptureFixture[str]) -> None:
    from server import server  # the example

    with in_thread(server.asgi()) as origin:
        for path, way in (("/mcp", "HTTP, after"), ("/sse", "HTTP+SSE, after")):
            status, report = doctor(capfd, origin + path)
            assert (status, report["findings"]) == (0, [])
            assert report["steps"][0]["seen"].startswith(way)


def test_doctor_protected_server_is_inspected_after_login(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("BROWSER", f"{sys.executable} {HELPERS / 'clicking_browser.py'} %s")
    with granting() as server:
        status, report = doctor(capfd, server.url)
        assert status == (6 if report["codes"] else 3)
        assert f"mcpkit auth login {server.url}" in report["steps"][0]["seen"]
        assert run(["auth", "login", server.url]) == 0
        status, report = doctor(capfd, server.url)
        seen: Mapping[str, str] = {each["step"]: each["seen"] for each in report["steps"]}
        assert "4 tools" in seen["lists"]
        server.metadata["code_challenge_methods_supported"] = None
        assert "no-pkce" in doctor(capfd, server.url)[1]["codes"]


def test_doctor_protected_server_without_metadata_is_inspected_with_token(
    capfd: pytest.CaptureFixture[str],
) -> None:
    token = StaticTokens.make()[0]
    server = Server("shop", auth=StaticTokens({token: "backup"}))

    @server.tool
    def price(item: str) -> float:
        """Say what an item costs."""
        return 3.5

    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        status, report = doctor(capfd, f"{origin}/mcp")
        assert (report["codes"], status) == (["no-metadata"], 6)
        assert f"mcpkit doctor {origin}/mcp --token TOKEN" in report["steps"][0]["seen"]
        assert "(--token TOKEN here)" in report["findings"][0]["cure"]
        seen = {
            each["step"]: each["seen"]
            for each in doctor(capfd, f"{origin}/mcp", "--token", token)[1]["steps"]
        }
        assert "1 tool" in seen["lists"]
