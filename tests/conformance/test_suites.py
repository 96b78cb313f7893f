"""The official conformance suites: against the server, the client and the authorization servers."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from mcpkit import Server
from mcpkit.auth import DevAuth
from tests.conformance import run as server_suite
from tests.conformance.run import FAILED, NODE_MODULES, find_node
from tests.helpers.browser import Browser
from tests.helpers.oauth_flow import PageForms
from tests.helpers.processes import free_port
from tests.helpers.serving import in_thread_at
from tests.helpers.waiting import eventually
from tests.integration.auth.servers import serve_proxy

pytestmark = pytest.mark.skipif(
    os.environ.get("MCPKIT_TEST_NODE") == "0", reason="left out on purpose: MCPKIT_TEST_NODE=0"
)

CLIENT = Path(__file__).parent / "client.py"
OLD, NEW = "conformance-0-1", "conformance-0-2"


def run_suite(package: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the suite."""
    command = [find_node(), str(NODE_MODULES / package / "dist" / "index.js"), *arguments]
    pipes: Any = {"stdin": subprocess.DEVNULL, "capture_output": True, "encoding": "utf-8"}
    return subprocess.run(command, **pipes, timeout=60)


def test_server_suite_has_no_failure_or_warning() -> None:
    command = [sys.executable, server_suite.__file__]
    ended = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"


# The client


class Run(NamedTuple):
    """One scenario of the client, at one revision where the suite knows several."""

    package: str
    scenario: str
    revision: str = ""


BOTH = ["2025-11-25", "2026-07-28"]
SINCE_2025_06 = ["2025-06-18", *BOTH]
LATEST = ["2026-07-28"]
OLDEST = ["2025-03-26"]
DEFAULT = [""]
"""The revision that the suite speaks first: that of extensions."""
HANDSHAKE = ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry")
SETS = {
    "2025-11-25": [*HANDSHAKE, "json-schema-2020-12-preservation"],
    "2026-07-28": [
        *("tools_call", "request-metadata", "sep-2322-client-request-state", "http-standard-headers"),
        *("http-custom-headers", "http-invalid-tool-headers", "json-schema-ref-no-deref"),
        "json-schema-2020-12-preservation",
    ],
}
AUTHORIZATION = {
    "metadata-default": BOTH, "metadata-var1": BOTH, "metadata-var2": BOTH, "metadata-var3": BOTH,
    "basic-cimd": BOTH, "scope-from-www-authenticate": BOTH, "scope-from-scopes-supported": BOTH,
    "scope-omitted-when-undefined": BOTH, "scope-step-up": BOTH, "scope-retry-limit": BOTH,
    "token-endpoint-auth-basic": SINCE_2025_06, "token-endpoint-auth-post": SINCE_2025_06,
    "token-endpoint-auth-none": SINCE_2025_06, "pre-registration": BOTH, "resource-mismatch": LATEST,
    "offline-access-scope": LATEST, "offline-access-not-supported": LATEST,
    "authorization-server-migration": LATEST, "iss-supported": LATEST, "iss-not-advertised": LATEST,
    "iss-supported-missing": LATEST, "iss-wrong-issuer": LATEST, "iss-unexpected": LATEST,
    "iss-normalized": LATEST, "metadata-issuer-mismatch": LATEST,
    "2025-03-26-oauth-metadata-backcompat": OLDEST, "2025-03-26-oauth-endpoint-fallback": OLDEST,
    "client-credentials-jwt": DEFAULT, "client-credentials-basic": DEFAULT,
    "enterprise-managed-authorization": DEFAULT, "dpop": DEFAULT, "dpop-nonce": DEFAULT,
    "wif-jwt-bearer": DEFAULT,
}  # fmt: skip
ONLY_NEW = re.compile("iss-|metadata-issuer|authorization-server-migration|enterprise|dpop|wif")
RUNS = [
    *(Run(OLD, name) for name in HANDSHAKE),
    *(Run(NEW, name, revision) for revision, names in SETS.items() for name in names),
]
OF_OLD = [name for name in [*AUTHORIZATION, "cross-app-access-complete-flow"] if not ONLY_NEW.match(name)]
AUTHORIZATION_RUNS = [
    *(Run(OLD, f"auth/{name}") for name in OF_OLD),
    *(Run(NEW, f"auth/{name}", each) for name, revisions in AUTHORIZATION.items() for each in revisions),
]
TIMED = {"sse-retry": "client-sse-retry-timing"}
"""A check that the suite measures with a clock. It fails on a busy machine, too."""


def problems_of(run: Run, results: Path) -> list[str]:
    """Let the suite start the client, and return the problems, a line for each."""
    arguments = ["client", "--command", shlex.join([sys.executable, str(CLIENT)]), "--scenario", run.scenario]
    arguments += ["--spec-version", run.revision] if run.revision else []
    ended = run_suite(run.package, *arguments, "--output-dir", str(results))
    [found] = results.rglob("checks.json")
    checks = json.loads(found.read_text("utf-8"))
    assert any(check["status"] == "SUCCESS" for check in checks), f"nothing was checked:\n{ended.stderr}"
    problems = [
        f"{check['status']} {check['id']}: {check.get('errorMessage') or check.get('description')}"
        for check in checks
        if check["status"] in FAILED
    ]
    if ended.returncode != 0 or "Client exited with" in ended.stderr:
        problems.append(f"{ended.stdout}\n{ended.stderr}")
    return problems


@pytest.mark.parametrize(
    "run",
    [*RUNS, *(pytest.param(run, marks=pytest.mark.long) for run in AUTHORIZATION_RUNS)],
    ids=lambda run: "-".join(run),
)
def test_client_suite_has_no_failure_or_warning(run: Run, tmp_path: Path) -> None:
    problems = problems_of(run, tmp_path / "first")
    if any(TIMED.get(run.scenario, "nothing") in problem for problem in problems):
        problems = problems_of(run, tmp_path / "second")
    assert problems == []


@lru_cache
def client_scenarios(package: str) -> dict[str, list[str]]:
    """Return the scenarios that a suite lists, with their revisions."""
    listed = re.findall(r"^  - (\S+) \[(.*)\]$", run_suite(package, "list", "--client").stdout, re.MULTILINE)
    return {name: revisions.split(",") for name, revisions in listed if not name.startswith("sep-2640-")}


@pytest.mark.parametrize("package", [OLD, NEW])
def test_all_client_scenarios_of_the_suites_run(package: str) -> None:
    """Those on authorization at each revision, the others at the first one, or 2025-11-25."""
    wanted, authorization = set(), set()
    for name, revisions in client_scenarios(package).items():
        if name.startswith("auth/"):
            is_default = package == OLD or revisions == ["extension"]
            authorization |= {Run(package, name, each) for each in ([""] if is_default else revisions)}
        else:
            wanted.add(Run(package, name, "" if package == OLD else max("2025-11-25", revisions[0])))
    assert len(wanted) >= len(HANDSHAKE)
    assert wanted <= set(RUNS)
    assert authorization == {run for run in AUTHORIZATION_RUNS if run.package == package}


@pytest.mark.parametrize("revision", SETS)
def test_all_client_scenarios_of_the_requirement_sets_run(revision: str) -> None:
    listed = run_suite(NEW, "list", "--requirements", revision).stdout.partition("Client scenarios")[2]
    names = re.findall(r"^ +- (\S+)(?: \[client\])?$", listed, re.MULTILINE)
    assert sorted(name for name in names if not name.startswith(("auth/", "sep-2640-"))) == sorted(
        SETS[revision]
    )


# Authorization servers, with a program as the user

PASSED = {"authorization-server-metadata", "authorization-server-metadata-cimd", "authorization-code-grant"}
PAGE = re.compile(r"^(http://\S+/authorize\?\S+)\s*$", re.MULTILINE)


def test_dev_auth_suite_has_no_failure_or_warning(tmp_path: Path) -> None:
    server = Server("notes", auth=DevAuth(users=["ada"]), scopes={"notes:read": "Read notes"})
    with in_thread_at(lambda origin: server.asgi(public_url=f"{origin}/mcp")) as origin:
        assert passed_checks(origin, allow, tmp_path) == PASSED


def test_oauth_proxy_suite_has_no_failure_or_warning(browser: Browser, tmp_path: Path) -> None:
    with serve_proxy(issuer="/login") as proxy, browser.profile() as page:
        issuer = proxy.url.removesuffix("/mcp") + "/login"

        def log_in(url: str) -> None:
            page.log_in(url, "bob")

        assert passed_checks(issuer, log_in, tmp_path, "--resource", proxy.url) == PASSED


def passed_checks(issuer: str, log_in: Callable[[str], object], results: Path, *options: str) -> set[str]:
    """Run the suite against an authorization server, log in at its prompt, and return the checks that pass."""
    metadata = {"redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none"}
    client_id = httpx2.post(f"{issuer}/register", json=metadata).json()["client_id"]
    port = free_port()
    command = [find_node(), str(NODE_MODULES / NEW / "dist" / "index.js"), "authorization", "--url", issuer]
    command += ["--client-id", client_id, *options, "-p", str(port), "--output-dir", str(results)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as suite:
        watchdog = threading.Timer(120, suite.kill)  # where its question is not answered
        watchdog.start()
        assert suite.stdout is not None
        output = ""
        for line in suite.stdout:
            output += line
            if page := PAGE.match(line):
                eventually(
                    lambda: is_open(port)
                )  # the suite prints the URL before it listens for the redirect
                log_in(page[1])
        status = suite.wait()
        watchdog.cancel()
    assert status == 0, output
    checks = [check for file in results.rglob("checks.json") for check in json.loads(file.read_text("utf-8"))]
    assert [check for check in checks if check["status"] in FAILED] == []
    return {check["id"] for check in checks if check["status"] == "SUCCESS"}


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def allow(page: str) -> None:
    """Consent as a user does, and follow the redirect."""
    with httpx2.Client(follow_redirects=True) as browser:
        answer = browser.get(page)
        answer = browser.post(page.partition("?")[0], data=PageForms(answer.text).forms[0])
    assert answer.text == "OK. You can close this page."
