"""The command `python -m mcpkit.compat.migrate server.py`."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main())
