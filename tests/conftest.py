from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import ssl
import sys
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpcore2
import pytest

from browser import Browser, browsing
from identity_provider import IdentityProvider, providing

HERE = Path(__file__).parent
ROOT = HERE.parent

_ELSEWHERE = ("cli", "compat", "conformance", "docs", "hosts", "interop", "weather")
_OTHERS = re.compile(
    r"^\s*(?:from|import) (?:django|fastapi|litestar|matplotlib|mcp|PIL|sentry_sdk)\b", re.MULTILINE
)

_IMPORTS = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)

_LONG = {
    HERE / name
    for name in (
        "auth/authority/test_processes.py",
        "auth/proxy/test_bounds.py",
        "auth/proxy/test_provider_trouble.py",
        "auth/proxy/test_races.py",
        "auth/proxy/test_secret_rotation.py",
        "auth/proxy/test_stored_bytes.py",
        "auth/proxy/test_workers.py",
        "calls/test_exits.py",
        "calls/workers/test_forks.py",
        "chaos/test_scenarios.py",
        "client/chaos/test_processes.py",
        "client/chaos/test_scripted.py",
        "client/transports/processes/test_orphans.py",
        "limits/test_arguments.py",
        "limits/test_messages.py",
        "limits/test_results.py",
        "limits/test_running.py",
        "limits/test_sessions.py",
        "schema/test_bounds.py",
        "schema/test_corpus.py",
        "schema/test_round_trip.py",
        "state/test_broker_expiry.py",
        "tasks/test_ends.py",
        "tasks/test_leases.py",
        "tasks/test_worker.py",
        "transports/http/intake/test_posted_bodies.py",
        "transports/http/protection/test_rotation.py",
        "transports/http/sessions/test_kept_events.py",
        "transports/http/test_edge_properties.py",
        "transports/http/test_endurance.py",
        "transports/http/test_exits.py",
        "transports/http/test_garbage.py",
        "transports/http/test_reporting.py",
        "transports/http/test_result_sizes.py",
        "transports/http/test_shutdown.py",
        "transports/http/test_unshared.py",
        "transports/http/test_workers.py",
        "transports/stdio/test_processes.py",
        "transports/stdio/test_reporting.py",
        "transports/stdio/test_streams.py",
        "transports/stdio/test_shutdown.py",
        "transports/stdio/test_lasting_tasks.py",
        "transports/test_large_messages.py",
    )
}
"""What takes seconds on its own: many processes, megabytes, all types there are."""

_SLOW = {
    HERE / name
    for name in (
        "auth/proxy/attacks/test_mix_up.py",
        "auth/test_hostile_tokens.py",
        "auth/upstream/test_hostile_answers.py",
        "client/changes/test_watch_rounds.py",
        "client/targets/test_targets_run.py",
        "client/transports/processes/test_ending.py",
        "client/test_elsewhere.py",
        "client/transports/processes/test_reopening.py",
        "client/transports/processes/test_stdio_client.py",
        "engine/subscriptions/test_watched_folder.py",
        "examples/test_extension.py",
        "examples/test_lab.py",
        "examples/test_unix_socket.py",
        "house/test_house.py",
        "house/test_lazy.py",
        "schema/test_cost_of_faults.py",
        "schema/test_types_page.py",
        "state/test_closing.py",
        "state/test_processes.py",
        "state/test_queue_kills.py",
        "state/test_redis_failover.py",
        "state/test_redis_listening.py",
        "state/test_redis_listing.py",
        "state/test_redis_trouble.py",
        "tasks/test_draining.py",
        "tasks/test_handshake_elsewhere.py",
        "tasks/test_orphans.py",
        "tasks/test_refused.py",
        "tasks/test_runner.py",
        "test_pytest_contract.py",
        "test_pytest_plugin.py",
        "transports/http/protection/test_conformance_contract.py",
        "transports/http/protection/test_leases.py",
        "transports/http/protection/test_pairs.py",
        "transports/http/test_killed_replica.py",
        "transports/http/test_redis_away.py",
        "transports/http/test_redis_costs.py",
        "transports/http/test_replicas.py",
        "transports/http/test_shared_file.py",
        "transports/http/test_web_concurrency.py",
        "transports/test_terminal.py",
    )
}
"""Of what most tests take a good part of a second, mostly since they start processes."""


def pytest_configure() -> None:
    """Spare each client 20 ms for the authorities of this machine: tests reach nobody for whom these vouch."""
    usual = getattr(httpcore2, "default_ssl_context", None)
    if usual is None:  # it is older
        return

    def named() -> tuple[str | None, str | None]:
        return os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")

    def without_authorities(*, _trust_env: bool = True) -> ssl.SSLContext:
        is_of_test = _trust_env and named() != of_machine
        return usual() if is_of_test else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    of_machine = named()
    httpcore2.default_ssl_context = without_authorities


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is long or slow: some files, and properties, which are tried with hundreds of values."""
    for item in items:
        if item.path in _SLOW:
            item.add_marker(pytest.mark.slow)
        if item.path in _LONG or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.long)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what needs more than the package itself, where `MCPKIT_TEST_CORE` says so: see CONTRIBUTING.md."""
    if os.environ.get("MCPKIT_TEST_CORE") != "1":
        return None
    if collection_path.is_dir():
        return collection_path.name in _ELSEWHERE or None
    return (collection_path.suffix == ".py" and _needs_others(collection_path)) or None


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what stays to the end: modules and thousands of tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write what a test has logged so that another process can be told: some tests log halves of characters."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


@cache
def _needs_others(file: Path) -> bool:
    """Whether a file imports a package beside ours, or a module of the tests that does."""
    text = file.read_text()
    modules = (HERE / "helpers" / f"{name}.py" for name in _IMPORTS.findall(text))
    return _OTHERS.search(text) is not None or any(_needs_others(each) for each in modules if each.exists())


@pytest.fixture(scope="session")
def schema_dir() -> Path:
    """The folder with the official wire schemas, one `<revision>/schema.json` each."""
    folder = Path(os.environ.get("MCP_SCHEMA_DIR", ROOT.parent / "shared" / "schema"))
    if not folder.is_dir():
        pytest.skip(f"no official wire schemas in {folder}: say where they are with MCP_SCHEMA_DIR")
    return folder


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Async tests run in asyncio's own loop, whose clock tests move.

    An old uvicorn that a test has run in this process leaves the process with uvloop for all later loops.
    """
    loop = asyncio.ProactorEventLoop if sys.platform == "win32" else asyncio.SelectorEventLoop
    return "asyncio", {"loop_factory": loop}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests, each with a profile of its own: `with browser.profile() as page`."""
    with browsing() as browser:
        yield browser


@pytest.fixture(scope="session")
def identity_provider() -> Iterator[IdentityProvider]:
    """One provider as it is by default, for tests that leave it as it is; `providing` runs another."""
    with providing() as provider:
        yield provider


@pytest.fixture
def hear_interrupts() -> Iterator[None]:
    """Let the children hear SIGINT, also where this process was started in the background and ignores it."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
