"""mcpkit doctor: planted faults of processes, servers, proxies and machines are found; a sound server has none."""

import json
import re
import socket
import sys
import threading
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from time import time
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from mcpkit import Server
from mcpkit.auth import StaticTokens
from mcpkit.cli.doctor import http_checks, stdio_checks
from mcpkit.cli.doctor.finding_catalogue import CATALOGUE
from mcpkit.client import version_negotiation
from tests.helpers.authorization_server import granting
from tests.helpers.serving import HELPERS, ROOT, free_ports, in_thread, in_thread_at, serve_nginx

WEATHER = f"{sys.executable} {ROOT / 'examples' / 'weather' / 'server.py'} --sample"

Run = Callable[..., tuple[int, str, str]]
Doctor = Callable[..., tuple[str, int, dict[str, Any]]]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait less for messages that do not come and processes that do not end."""
    monkeypatch.setattr(stdio_checks, "_EXIT_TIMEOUT", 1.0)
    monkeypatch.setattr(stdio_checks, "_ID_TIMEOUT", 1.0)
    monkeypatch.setattr(version_negotiation, "DISCOVER_TIMEOUT", 0.5)


@pytest.fixture
def doctor(mcpkit: Run) -> Doctor:
    """A function that inspects a target: the codes of the findings, the status, and the report.

    The report has what was seen by step under `seen`.
    """

    def inspect(target: str, *options: str) -> tuple[str, int, dict[str, Any]]:
        status, out, _ = mcpkit("doctor", target, "--json", *options)
        report = json.loads(out)
        report["seen"] = {each["step"]: each["seen"] for each in report["steps"]}
        assert all(each["cure"] and "{" not in each["seen"] + each["cure"] for each in report["findings"])
        return " ".join(each["code"] for each in report["findings"]), status, report

    return inspect


def faulty(faults: str) -> str:
    return f"{sys.executable} -S {Path(__file__).with_name('faulty_process.py')} {faults}"


# Processes


def test_doctor_weather_example_has_no_findings(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_checks, "_EXIT_TIMEOUT", 20.0)  # a busy machine ends it late
    codes, status, report = doctor(WEATHER, "--call")
    assert (codes, status) == ("", 0)
    assert "weather 1.0.0" in report["seen"]["start"]
    revisions = "2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"
    assert report["seen"]["revisions"] == f"supports {revisions}"
    capabilities = "completions, logging, resources.subscribe, subscriptions/listen"
    assert report["seen"]["capabilities"] == capabilities


@pytest.mark.parametrize(("faults", "codes"), [
    ("", ""), ("noise", "noise noise"), ("byte-order-mark crlf", "byte-order-mark crlf"),
    ("encoding", "encoding"), ("encoding-windows", "encoding-windows"),
    ("echoed-revision", "echoed-revision"), ("no-common-revision", "no-common-revision"),
    ("unknown-revision", "unknown-revision"), ("discover-ends", "discover-ends"),
    ("tools/list prompts/list", "list-fails list-fails"),
    ("undeclared-tools undeclared-prompts", "undeclared undeclared"),
    ("cursor-loops", "cursor-loops cursor-accepted"), ("pages", ""),
    ("pages cursor-accepted", "cursor-accepted"),
    ("resources/subscribe logging/setLevel", "logging-fails subscribe-fails"),
    ("completion/complete", "completions-fail"), ("ping unknown-method", "ping-fails unknown-method"),
    ("client-fails", "client-fails"), ("output-mismatch", "output-mismatch"),
    ("tools/call", "call-fails"), ("listen-refused", "listen-refused"),
    ("malformed-ends", "malformed-ends"), ("orphans", "orphans"), ("discover-silent", "discover-silent"),
    ("no-answer", "no-answer"), ("buffered-output", "buffered-output"),
    ("ended-at-start", "ended-at-start"), ("input-end-ignored", "input-end-ignored"),
    ("sigterm-ignored", "sigterm-ignored"),
])  # fmt: skip
def test_doctor_finds_planted_faults(faults: str, codes: str, doctor: Doctor) -> None:
    has_no_answer = faults in {"no-answer", "buffered-output", "discover-silent"}
    found, status, _ = doctor(faulty(faults), *(["--timeout", "2"] if has_no_answer else ["--call"]))
    assert (found, status) == (codes, 4 if codes in {"no-answer", "ended-at-start"} else 6 if codes else 0)


def test_doctor_prints_observation_and_fix(mcpkit: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio_checks, "_SLOW", 0.0)
    status, out, _ = mcpkit("doctor", faulty("noise no-common-revision"))
    assert status == 6
    assert "error noise: Line 1 of standard output is not a JSON-RPC message: 'Server is running...'" in out
    assert "Fix: write only messages to standard output, and other output to standard error: print(" in out
    assert "initialize with revision 2099-12-31 got error -32602 (refused)" in out
    assert "warning slow-start: " in out
    status, out, _ = mcpkit("doctor", faulty("ended-at-start"))
    assert status == 4
    assert "with exit status 1 before its first response: DATABASE_URL is not set" in out


def test_doctor_missing_program_is_finding(doctor: Doctor) -> None:
    codes, status, report = doctor("no-such-program --serve")
    assert (codes, status) == ("not-started", 4)
    assert "it is not on PATH" in report["findings"][0]["seen"]
    assert "absolute path" in report["findings"][0]["cure"]


def test_doctor_catalogue_codes_are_on_the_page_and_tested() -> None:
    page = (ROOT / "docs" / "cli" / "doctor.md").read_text()
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("- `")] == list(CATALOGUE)
    source = Path(__file__).read_text()
    assert [code for code in CATALOGUE if not re.search(rf'["\s]{code}[":\s]', source)] == []


def test_doctor_configuration_entry_is_target(tmp_path: Path, doctor: Doctor, mcpkit: Run) -> None:
    program, *arguments = faulty("crlf ping").split()
    entry = {"command": program, "args": arguments}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"one": entry, "two": entry}}))
    assert doctor(f"{file}:two")[0] == "crlf ping-fails"
    status, _, err = mcpkit("doctor", str(file))
    assert (status, "Write " in err) == (1, True)


# URLs

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PAGE = "http://localhost:6274"
CORS_HEADERS = "content-type, mcp-protocol-version, mcp-session-id, last-event-id"


class FaultyApp:
    """A server at `/mcp` with some faults; with `cors`, which is no fault, pages of one origin may use it."""

    def __init__(self, faults: str) -> None:
        self.faults = faults.split()
        self.sessions: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await self.respond(request)
        is_preflight = request.method == "OPTIONS"
        is_allowed = "cors" in self.faults and (is_preflight or "cors-answer" not in self.faults)
        if request.headers.get("origin") == PAGE and is_allowed:
            response.headers["Access-Control-Allow-Origin"] = PAGE
            if "cors-preflight" not in self.faults:
                response.headers["Access-Control-Allow-Headers"] = CORS_HEADERS
            if "cors-exposed" not in self.faults:
                response.headers["Access-Control-Expose-Headers"] = "Mcp-Session-Id"
        if "clock" in self.faults:
            response.headers["Date"] = formatdate(time() + 3600, usegmt=True)
        await response(scope, receive, send)

    async def respond(self, request: Request) -> Response:
        headers, faults = request.headers, self.faults
        if request.url.path == "/sse" and request.method == "GET":
            endpoint = "http://elsewhere.example" if "endpoint-origin" in faults else ""
            event = "" if "buffered-events" in faults else f"event: endpoint\ndata: {endpoint}/messages\n\n"
            return Response(event, media_type="text/event-stream")
        session = headers.get("mcp-session-id", "")
        for fault, status, is_refused in (
            ("", 500, "server-error" in faults),
            ("", 404, request.url.path != "/mcp"),
            ("foreign-origin", 403, headers.get("origin", PAGE) != PAGE),
            ("foreign-host", 403, not headers.get("host", "").startswith("127.0.0.1")),
            ("unknown-session", 404, session and session not in self.sessions),
            ("revision-header", 400, headers.get("mcp-protocol-version", REVISIONS[-1]) not in REVISIONS),
        ):
            if is_refused and fault not in faults:
                return Response(status_code=status)
        if request.method == "OPTIONS":
            return Response(status_code=204 if "cors" in faults else 405)
        if request.method == "GET":
            return Response("<html>", 200 if "get-status" in faults else 405, media_type="text/html")
        if request.method == "DELETE":
            if "session-goes-on" not in faults and "delete-fails" not in faults:
                self.sessions.discard(session)
            return Response(status_code=500 if "delete-fails" in faults else 204)
        try:
            message: dict[str, Any] = await request.json()
        except ValueError:
            return Response(status_code=500 if "malformed-status" in faults else 400)
        if "id" not in message:
            return Response(status_code=200 if "notification-status" in faults else 202)
        if "content-type" in faults:
            return Response("<html>welcome</html>", media_type="text/html")
        return self.result(message)

    def result(self, message: dict[str, Any]) -> Response:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"], "result": {}}
        headers: dict[str, str] = {}
        if message["method"] == "initialize":
            requested = message["params"]["protocolVersion"]
            answer["result"] = {
                "protocolVersion": requested if requested in REVISIONS else REVISIONS[-1],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "faulty", "version": "1"},
            }
            headers["Mcp-Session-Id"] = (
                f"session{' ' if 'session-id' in self.faults else '-'}{len(self.sessions)}"
            )
            self.sessions.add(headers["Mcp-Session-Id"])
        elif message["method"] == "tools/list":
            answer["result"] = {"tools": []}
        elif message["method"] != "ping":
            del answer["result"]
            answer["error"] = {"code": -32601, "message": "method not found"}
        return JSONResponse(answer, headers=headers)


@pytest.mark.parametrize(("faults", "codes"), [
    ("", ""), ("cors", ""), ("clock", "clock"), ("unknown-session", "unknown-session session-goes-on"),
    ("revision-header notification-status", "notification-status revision-header"),
    ("malformed-status get-status", "malformed-status get-status"), ("foreign-origin", "foreign-origin"),
    ("foreign-host", "foreign-host"), ("cors cors-preflight cors-exposed", "cors-preflight cors-exposed"),
    ("cors cors-answer", "cors-answer"), ("session-goes-on", "session-goes-on"),
    ("delete-fails", "delete-fails"), ("session-id", "session-id client-fails"),
    ("content-type", "content-type"), ("at /nothing", "no-mcp"), ("server-error", "server-error"),
    ("endpoint-origin at /sse", "endpoint-origin"), ("buffered-events at /sse", "buffered-events"),
])  # fmt: skip
def test_doctor_finds_planted_http_faults(faults: str, codes: str, doctor: Doctor) -> None:
    with in_thread(FaultyApp(faults), date_header=False) as origin:
        found, status, _ = doctor(origin + (faults.partition("at ")[2] or "/mcp"))
    is_fatal = codes in {"content-type", "no-mcp", "server-error"}
    assert (found, status) == (codes, 4 if is_fatal else 6 if codes else 0)


def test_doctor_finds_closed_connection(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closing = threading.Thread(target=lambda: listener.accept()[0].close())
        closing.start()
        found = doctor(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp")
        closing.join()
    assert found[:2] == ("closed", 4)


def shop(**options: Any) -> Server:
    server = Server("shop", **options)

    @server.tool
    def price(item: str) -> float:
        """Say what an item costs."""
        return 3.5

    return server


SECRETS = ("one secret of the tests, long enough", "another secret of the tests, long")


@pytest.mark.parametrize(
    ("secrets", "code"),
    [(SECRETS, "no-affinity"), (SECRETS[:1] * 2, "session-goes-on")],
    ids=["apart", "shared"],
)
def test_doctor_finds_instances_without_shared_sessions(secrets, code, tmp_path, doctor) -> None:
    one, other = (shop(secret_key=each).asgi() for each in secrets)
    with in_thread(one) as first, in_thread(other) as second:
        servers = "".join(f"server {each.removeprefix('http://')};" for each in (first, second))
        locations = f"""
            location / {{ proxy_pass http://both; proxy_set_header Host $http_host; }} }}
            upstream both {{ {servers} }}
            server {{ listen 127.0.0.1:{free_ports().plain};"""
        with serve_nginx(free_ports(), tmp_path, locations) as proxy:
            assert doctor(f"{proxy.plain}/mcp")[:2] == (code, 6)


REDIRECTS = """
    location = /mcp {{ return 307 /mcp/; }}
    location = /old {{ return 301 {url}/mcp/; }}
    location = /down {{ return 307 http://localhost:{plain}/mcp/; }}
    location = /mcp/ {{ proxy_pass {url}/mcp; proxy_buffering off; proxy_set_header Host $http_host; }}
"""


def test_doctor_finds_redirects_certificates_and_unreachable_hosts(tmp_path, doctor, monkeypatch) -> None:
    ports = free_ports()
    with (
        in_thread(shop().asgi()) as url,
        serve_nginx(ports, tmp_path, REDIRECTS.format(url=url, plain=ports.plain)) as proxy,
    ):
        codes, status, report = doctor(f"{proxy.plain}/mcp")
        assert (codes, status) == ("redirect-kept", 6)
        assert "several connections" in report["seen"], "later steps run, too"
        assert doctor(f"{proxy.plain}/old")[0].startswith("redirect ")
        codes, status, report = doctor(f"{proxy.url}/mcp")
        assert (codes, status) == ("tls", 4)
        assert "certificate" in report["findings"][0]["seen"]

        monkeypatch.setenv("SSL_CERT_FILE", str(proxy.authority))
        monkeypatch.setattr(http_checks, "_EXPIRY_NOTICE", 1e12)
        assert doctor(f"{proxy.url}/mcp/")[0] == "certificate-ends"
        assert doctor(f"{proxy.url}/down")[0].startswith("redirect-downgrade ")
    assert doctor("http://127.0.0.1:1/mcp")[:2] == ("refused", 4)
    assert doctor("http://no-such-host.invalid/mcp")[:2] == ("dns", 4)


def test_doctor_weather_example_has_no_findings_over_http(doctor: Doctor, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "weather"))
    from server import server

    with in_thread(server.asgi()) as origin:
        for path, way in (("/mcp", "HTTP, after"), ("/sse", "HTTP+SSE, after")):
            codes, status, report = doctor(origin + path)
            assert (codes, status) == ("", 0)
            assert report["steps"][0]["seen"].startswith(way)


def test_doctor_protected_server_is_inspected_after_login(tmp_path, doctor, mcpkit, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("BROWSER", f"{sys.executable} {HELPERS / 'clicking_browser.py'} %s")
    with granting() as server:
        codes, status, report = doctor(server.url)
        assert status == (6 if codes else 3)
        assert f"mcpkit auth login {server.url}" in report["steps"][0]["seen"]
        assert mcpkit("auth", "login", server.url)[0] == 0
        assert "4 tools" in doctor(server.url)[2]["seen"]["lists"]
        server.metadata["code_challenge_methods_supported"] = None
        assert "no-pkce" in doctor(server.url)[0]


def test_doctor_protected_server_without_metadata_is_inspected_with_token(doctor: Doctor) -> None:
    token = StaticTokens.make()[0]
    server = shop(auth=StaticTokens({token: "backup"}))
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        codes, status, report = doctor(f"{origin}/mcp")
        assert (codes, status) == ("no-metadata", 6)
        assert f"mcpkit doctor {origin}/mcp --token TOKEN" in report["steps"][0]["seen"]
        assert "(--token TOKEN here)" in report["findings"][0]["cure"]
        assert "1 tool" in doctor(f"{origin}/mcp", "--token", token)[2]["seen"]["lists"]
