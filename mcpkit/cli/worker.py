"""`mcpkit worker`: runs the tasks of a server in a separate process."""

from __future__ import annotations

import logging

import click

from ..transports.serving import NoWorkError, check_worker_options, run_worker
from .exit_status import CommandError
from .server_loader import load_server


@click.command("worker", epilog="Example: mcpkit worker server:server --slots 8")
@click.argument("server", metavar="SERVER")
@click.option(
    "--slots", type=int, metavar="N", help="Number of tasks to run at a time (default: the server's setting)."
)
@click.option(
    "--grace",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Time that running tasks get after a signal.",
)
def command(server: str, slots: int | None, grace: float) -> None:
    """Run the tasks of a server in this process until SIGTERM or SIGINT.

    After the signal, running tasks finish within the grace period or go back to the queue. A second signal stops at
    once.

    SERVER is a file (server.py, or server.py:name) or a module that can be imported from this folder (server:name).
    """
    try:
        check_worker_options(slots, grace)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        loaded = load_server(server).server
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        run_worker(loaded, slots=slots, grace=grace)
    except NoWorkError as error:
        raise CommandError(f"{error}") from None
