"""The hosts log in to a protected server, by a browser, and let a model of ours call its tool `whoami`.

The model is scripted (`models.py`): what is tried is what the host does with the server.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from host import Host
from models import app

from tests.helpers.browser import Browser, Launched
from tests.helpers.identity_provider import providing
from tests.helpers.oauth_flow import client_documents
from tests.helpers.serving import in_thread
from tests.integration.auth.clients import User
from tests.integration.auth.servers import ProtectedServer, serve_jwt, serve_proxy

TIME_OUT = 120.0
CLAUDE_CODE = "https://claude.ai/oauth/claude-code-client-metadata"
DOCUMENTS = {
    CLAUDE_CODE: {
        "client_id": CLAUDE_CODE,
        "client_name": "Claude Code",
        "application_type": "native",
        "grant_types": ["authorization_code", "refresh_token"],
        "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
        "token_endpoint_auth_method": "none",
    }
}
"""What hosts publish of themselves, as far as they need it here."""


@contextmanager
def in_terminal(
    command: list[str], home: str, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a terminal of its own until the end of the block; what it draws there is thrown away."""
    ours_end, its_end = pty.openpty()

    def drain() -> None:
        try:
            while os.read(ours_end, 65536):
                pass
        except OSError:  # how the end of a terminal is told
            return

    process = subprocess.Popen(
        command,
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        cwd=home,
        env=environment,
        start_new_session=True,
    )
    os.close(its_end)
    drained = threading.Thread(target=drain)
    drained.start()
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        drained.join()
        os.close(ours_end)


def has_logged_in(process: subprocess.Popen[bytes], guarded: ProtectedServer) -> bool:
    """Whether a host has a token: its command has ended with that, or it has used one."""
    return process.poll() is not None or any(
        each.has_token and each.status == 200 for each in guarded.exchanges
    )


@contextmanager
def at_a_provider() -> Iterator[ProtectedServer]:
    """Run a server whose clients log in at a provider that knows their documents, and lets them register."""
    with providing(documents=DOCUMENTS) as provider, serve_jwt(provider.issuer) as guarded:
        yield guarded


@contextmanager
def by_a_proxy() -> Iterator[ProtectedServer]:
    """Run a server whose clients log in by a proxy, at a provider that knows none of them."""
    with client_documents(DOCUMENTS), serve_proxy() as proxy:
        yield proxy.guarded
        proxy.check_secrets()


def logs_in(
    host: Host, browser: Browser, protected: Callable[[], AbstractContextManager[ProtectedServer]]
) -> tuple[bool, str]:
    """Log in with a host in a fresh home, and ask it something; say whether the tool was called, and what it said."""
    with (
        tempfile.TemporaryDirectory(prefix="host-") as home,
        tempfile.TemporaryDirectory(prefix="browser-") as folder,
        protected() as guarded,
        in_thread(app) as model,
        browser.profile() as page,
    ):
        launched = Launched(Path(folder))
        user = User(page)
        settings = {name: value.format(model=model) for name, value in host.settings.items()}
        settings |= {**launched.environment, "PATH": launched.path(host.environment(home)["PATH"])}
        said = host.run(home, "mcp", "add", "--transport", "http", "notes", guarded.url).stdout
        command, environment = host.command(*host.log_in), host.environment(home) | settings
        with user.answering(launched), in_terminal(command, home, environment) as process:
            deadline = time.monotonic() + TIME_OUT
            while not has_logged_in(process, guarded) and time.monotonic() < deadline:
                time.sleep(0.1)
        launched.close()
        asked = host.run(home, *host.ask, settings=settings)
        has_called = any(
            each.message == "tools/call whoami" and each.status == 200 for each in guarded.exchanges
        )
        return has_called and "bob" in asked.stdout, said + asked.stdout
