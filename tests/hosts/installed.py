"""Hosts with servers that mcpkit install configured, and logins of hosts at protected servers."""

import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host import TIME_OUT, Finished, Host, run
from models import app

from mcpkit.cli.hosts.host_table import HOSTS as KNOWN
from tests.helpers.browser import Launched
from tests.helpers.identity_provider import providing
from tests.helpers.oauth_flow import client_documents
from tests.helpers.serving import in_thread
from tests.integration.auth.clients import User
from tests.integration.auth.servers import ProtectedServer, serve_jwt, serve_proxy

ROOT = Path(__file__).parents[2]


QODERCLI = ROOT / ".hosts" / "qoder-agent-sdk" / "lib"


SETTINGS = '{\n\t// as its user wrote it\n\t"mcpServers": {\n\t\t// none so far\n\t}\n}\n'


PLAIN = '{\n    "mcpServers": {},\n    "theme": "dark"\n}\n'


@dataclass(frozen=True)
class Qodercli:
    """The program that the SDK of Qoder brings, which lists servers without a login."""

    name: str = "Qoder CLI"

    @property
    def _program(self) -> Path:
        [program] = QODERCLI.glob("python3*/site-packages/qoder_agent_sdk/_bundled/qodercli")
        return program

    @property
    def version(self) -> str:
        """The version that is installed."""
        return self.run(tempfile.gettempdir(), "--version").stdout.strip()

    def environment(self, home: str) -> dict[str, str]:
        """The environment of its commands, which holds nothing of this machine's user."""
        return {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "NO_COLOR": "1"}

    def run(self, home: str, *arguments: str) -> Finished:
        """Run one of its commands."""
        return run([str(self._program), *arguments], home, self.environment(home))


def listed(finished: Finished) -> bool:
    """Qoder's program ends with 0 whatever it found, so its words count."""
    return re.search(r"^✓ weather: .* - Connected\b", finished.stdout, re.M) is not None


@dataclass(frozen=True)
class InstalledHost:
    """A host that gets the weather example by `mcpkit install`.

    Attributes:
        name: What it is called.
        known_as: What `mcpkit install` calls it.
        host: The program.
        settings: What its user has in its file.
        check: Its command that connects to every server.
        has_connected: Reads from its output whether it connected.
    """

    known_as: str
    host: Host | Qodercli
    settings: str
    check: list[str]
    has_connected: Callable[[Finished], bool]

    @property
    def name(self) -> str:
        """Its name."""
        return self.host.name

    @property
    def version(self) -> str:
        """The version that is installed."""
        return self.host.version

    def connects(self, target: list[str]) -> tuple[bool, str]:
        """Install the server in a fresh home, connect, and uninstall it; return whether all was as expected."""
        with tempfile.TemporaryDirectory(prefix="host-", ignore_cleanup_errors=True) as home:
            file = Path(home, KNOWN[self.known_as].user.linux.removeprefix("~/"))
            file.parent.mkdir(exist_ok=True)
            file.write_text(self.settings)
            output = self._mcpkit(home, "install", self.known_as, *target)
            output += self._mcpkit(home, "uninstall", self.known_as, "weather")
            if file.read_text() != self.settings:
                return False, f"not as before: {file.read_text()}"
            output += self._mcpkit(home, "install", self.known_as, *target)
            checked = self.host.run(home, *self.check)
            output += checked.stdout + self._mcpkit(home, "uninstall", self.known_as, "weather")
            return self.has_connected(checked) and "weather" not in file.read_text(), output

    def _mcpkit(self, home: str, *arguments: str) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": home}
        return run([sys.executable, "-m", "mcpkit", *arguments], home, environment).stdout


def targets(origin: str, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield what the hosts are given: a file, a command and a URL."""
    file = folder / "server.py"
    yield "file", [str(file), "--name", "weather"]
    yield "command", [f"{sys.executable} {file} --sample", "--name", "weather"]
    yield "URL", [f"{origin}/mcp", "--name", "weather"]


CLAUDE_CODE = "https://claude.ai/oauth/claude-code-client-metadata"


DOCUMENTS = {
    CLAUDE_CODE: {
        "client_id": CLAUDE_CODE, "client_name": "Claude Code", "application_type": "native",
        "grant_types": ["authorization_code", "refresh_token"],
        "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
        "token_endpoint_auth_method": "none",
    }
}  # fmt: skip


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

    ends: Any = {"stdin": its_end, "stdout": its_end, "stderr": its_end}
    process = subprocess.Popen(command, **ends, cwd=home, env=environment, start_new_session=True)
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
    """Return whether a host has a token: its command has ended with that, or it has used one."""
    return process.poll() is not None or any(
        each.has_token and each.status == 200 for each in guarded.exchanges
    )


@contextmanager
def at_a_provider() -> Iterator[ProtectedServer]:
    """Run a server with a provider that knows the documents of clients, and lets them register."""
    with providing(documents=DOCUMENTS) as provider, serve_jwt(provider.issuer) as guarded:
        yield guarded


@contextmanager
def by_a_proxy() -> Iterator[ProtectedServer]:
    """Run a server with a proxy before a provider that knows none of the clients."""
    with client_documents(DOCUMENTS), serve_proxy() as proxy:
        yield proxy.guarded


def logs_in(host, browser, protected) -> tuple[bool, str]:
    """Log in with a host in a fresh home, and prompt it; return whether the tool was called, and the output."""
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
