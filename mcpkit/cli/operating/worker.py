"""`mcpkit worker`: runs the tasks of a server, in a process of its own."""

from __future__ import annotations

import logging

import click

from ...transports.worker import NoWorkError, check_options, run_worker
from ..statuses import CommandError
from ..targets.served import found


@click.command("worker", epilog="Example: mcpkit worker server:server --slots 8")
@click.argument("server", metavar="SERVER")
@click.option("--slots", type=int, metavar="N", help="Tasks that run at a time; else as the server says.")
@click.option(
    "--grace",
    type=float,
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="From a signal to the end.",
)
def command(server: str, slots: int | None, grace: float) -> None:
    """Run the tasks of a server, in this process, until SIGTERM or SIGINT.

    What runs then is handed back, or finishes within the grace period. A second signal ends it at once.

    SERVER is a file with one (server.py, or server.py:name), or server:name, a module that is found from this folder.
    """
    try:
        check_options(slots, grace)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        named = found(server).server
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        run_worker(named, slots=slots, grace=grace)
    except NoWorkError as error:
        raise CommandError(f"{error}") from None
