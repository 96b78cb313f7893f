"""The command line: `mcpkit COMMAND ...` and `python -m mcpkit COMMAND ...`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command of the command line, and return the exit status.

    Args:
        arguments: Arguments after the name of the program; None for those of this process.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    is_completing = "_MCPKIT_COMPLETE" in os.environ  # set by a shell
    if words in ([], ["--help"], ["-h"]) and not is_completing:
        # The parser of command lines is not imported for this, as that takes longer than all else.
        from .cli.command_table import overview

        print(overview())
        return 0 if words else 1
    try:
        from .cli.app import run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        from ._utils.package import install_command

        print(f"mcpkit: the command line needs more packages. Run: {install_command('cli')}", file=sys.stderr)
        return 1
    return run(words)


if __name__ == "__main__":
    sys.exit(main())
