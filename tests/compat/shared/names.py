"""What is logged of each name of a tool, as JSON: the texts of mcp 1.x's own function, or of ours."""

import json
import logging
import sys


def said_of(names, validate):
    heard = []

    class Hearing(logging.Handler):
        def emit(self, record):
            heard.append([record.levelname, record.name, record.getMessage()])

    logger = logging.getLogger("mcp.shared.tool_name_validation")
    handler = Hearing()
    logger.addHandler(handler)
    try:
        return [[name, validate(name), heard[:], heard.clear()] for name in names]
    finally:
        logger.removeHandler(handler)


if __name__ == "__main__":
    from mcp.shared.tool_name_validation import validate_and_warn_tool_name

    json.dump(said_of(json.load(sys.stdin), validate_and_warn_tool_name), sys.stdout)
