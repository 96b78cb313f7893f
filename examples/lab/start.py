"""Two replicas, a worker and a redis-server on this machine, until Ctrl-C.

python start.py                  free ports of 127.0.0.1; the data of Redis is in the folder lab.data
python start.py --ports 8001 8002

With REDIS_URL in the environment, that Redis is used and none is started. LEDGER is passed on.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

HERE = Path(__file__).parent
GRACE = 15.0
"""Seconds that a process has to stop."""


class Process:
    """A process that is terminated at the end, and killed if it does not stop."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        self.name = name
        # In a group of its own: Ctrl-C reaches this program, which ends them in order.
        self.process = subprocess.Popen(
            command, cwd=HERE, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def wait_for(self, port: int) -> None:
        """Wait until the process listens on a port."""
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                if self.process.poll() is not None:
                    raise SystemExit(f"{self.name} has ended with {self.process.returncode}") from None
                time.sleep(0.05)
            else:
                return


def free_port() -> int:
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def redis_server(stack: ExitStack, data: Path, environment: dict[str, str]) -> str:
    """Start a redis-server with an append-only file, and return its URL."""
    if (found := shutil.which("redis-server")) is None:
        raise SystemExit("there is no redis-server: apt-get install redis-server, or set REDIS_URL")
    data.mkdir(exist_ok=True)
    port = free_port()
    options = ["--bind", "127.0.0.1", "--dir", str(data), "--appendonly", "yes", "--save", ""]
    options += ["--maxmemory-policy", "noeviction", "--loglevel", "warning"]
    redis = stack.enter_context(Process("redis-server", [found, "--port", str(port), *options], environment))
    redis.wait_for(port)
    return f"redis://127.0.0.1:{port}/0"


def secret_in(data: Path) -> str:
    """Return the secret key of this lab, created at the first start: the data in Redis belongs to it."""
    data.mkdir(exist_ok=True)
    file = data / "secret"
    if not file.exists():
        file.touch(0o600, exist_ok=False)
        file.write_text(secrets.token_urlsafe(32), "ascii")
    return file.read_text("ascii")


def main() -> None:
    """Start all processes, and wait until one ends."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="python start.py"
    )
    parser.add_argument(
        "--ports", type=int, nargs="+", default=[0, 0], help="one for each replica; 0 is a free one"
    )
    parser.add_argument("--slots", type=int, default=8, help="how many tasks the worker runs at a time")
    parser.add_argument("--data", type=Path, default=Path("lab.data"), help="the folder for what is kept")
    options = parser.parse_args()
    data = options.data.resolve()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    environment = dict(os.environ)
    environment["LEDGER"] = str(Path(environment.get("LEDGER", "ledger.txt")).resolve())
    environment.setdefault("MCPKIT_SECRET", secret_in(data))
    # Redis stops last, after the processes that use it.
    with ExitStack() as stack:
        try:
            if "REDIS_URL" not in environment:
                environment["REDIS_URL"] = redis_server(stack, data, environment)
            print(f"Redis: {environment['REDIS_URL'].rpartition('@')[2]}", flush=True)
            worker = [
                sys.executable,
                "-m",
                "mcpkit",
                "worker",
                "server:server",
                "--slots",
                str(options.slots),
            ]
            running = [stack.enter_context(Process("the worker", worker, environment))]
            for port in (each or free_port() for each in options.ports):
                command = [sys.executable, "server.py"]
                replica = Process(f"the replica at {port}", command, {**environment, "PORT": str(port)})
                running.append(stack.enter_context(replica))
                replica.wait_for(port)
                print(f"replica: http://127.0.0.1:{port}/mcp", flush=True)
            print(f"ledger: {environment['LEDGER']}\nCtrl-C ends all of it.", flush=True)
            while (
                ended := next((each for each in running if each.process.poll() is not None), None)
            ) is None:
                time.sleep(0.2)
            raise SystemExit(f"{ended.name} has ended with {ended.process.returncode}")
        except KeyboardInterrupt:
            print("ending", flush=True)


if __name__ == "__main__":
    main()
