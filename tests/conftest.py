import asyncio
import gc
import inspect
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
from hypothesis import HealthCheck, settings

from mcpkit import Server
from tests.helpers.browser import Browser, browsing
from tests.helpers.identity_provider import IdentityProvider, providing
from tests.helpers.pipe import Wire, open_pipe

HERE = Path(__file__).parent
ROOT = HERE.parent

_ELSEWHERE = ("cli", "compat", "docs", "hosts", "interop", "weather")
_OTHERS = re.compile(
    r"^\s*(?:from|import) (?:django|fastapi|litestar|matplotlib|mcp|PIL|sentry_sdk)\b", re.MULTILINE
)

_IMPORTS = re.compile(r"^\s*from tests\.helpers\.(\w+) import", re.MULTILINE)


def pytest_configure() -> None:
    """Set up what all tests share: generated tests, the compile cache of Node, and certificates.

    Clients do not load the certificates of this machine, which takes 20 ms each: tests reach no server that has one.
    """
    os.environ.setdefault("NODE_COMPILE_CACHE", str(ROOT / "node_modules" / ".cache" / "compile"))
    settings.register_profile(
        "mcpkit",
        max_examples=int(os.environ.get("MCPKIT_TEST_EXAMPLES", "50")),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mcpkit")
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


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: Any) -> None:
    """Mark async tests for anyio's plugin, which makes items of them after this."""
    if collector.istestfunction(obj, name) and inspect.iscoroutinefunction(obj):
        pytest.mark.anyio(obj)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark generated tests as long, and begin with those that take longest, so that no worker ends with one."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: not {"docs", "conformance"} & {*item.path.parts})


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out tests that need more than the package itself if `MCPKIT_TEST_CORE` is 1: see CONTRIBUTING.md."""
    if os.environ.get("MCPKIT_TEST_CORE") != "1":
        return None
    if collection_path.is_dir():
        is_elsewhere = collection_path.name in _ELSEWHERE or collection_path == HERE / "integration" / "auth"
        return is_elsewhere or None
    return (collection_path.suffix == ".py" and _needs_others(collection_path)) or None


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what stays to the end: modules and thousands of tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape halves of characters in logs of tests, so that reports can be sent to another process."""
    report = yield
    report.sections = [
        (name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections
    ]
    return report


@cache
def _needs_others(file: Path) -> bool:
    """Return whether a file, or a helper that it imports, imports a package beside ours."""
    text = file.read_text()
    modules = (HERE / "helpers" / f"{name}.py" for name in _IMPORTS.findall(text))
    return _OTHERS.search(text) is not None or any(_needs_others(each) for each in modules if each.exists())


@pytest.fixture
def wire(schema_dir: Path) -> Wire:
    """Connect a pipe that validates messages: `async with wire(server, revision) as pipe`."""

    def connect_pipe(server: Server, revision: str = "2025-11-25", **options: Any) -> Any:
        return open_pipe(server, revision, schema_dir, **options)

    return connect_pipe


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
def revision(request: pytest.FixtureRequest) -> str:
    """The latest version of the handshake era, and the stateless one."""
    return str(request.param)


@pytest.fixture(scope="session")
def schema_dir() -> Path:
    """The folder with the official wire schemas, one `<revision>/schema.json` each."""
    folder = Path(os.environ.get("MCP_SCHEMA_DIR", ROOT.parent / "shared" / "schema"))
    if not folder.is_dir():
        pytest.skip(f"no official wire schemas in {folder}: set MCP_SCHEMA_DIR to their folder")
    return folder


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Async tests run in asyncio's own loop, as tests move its clock.

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


@pytest.fixture(scope="session", autouse=True)
def default_interrupts() -> Iterator[None]:
    """Children react to SIGINT, also if this process was started in the background and ignores it."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
