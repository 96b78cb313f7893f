"""What a server is told about itself is checked at once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mcpkit import Cache, Memory, Server, Tasks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offers": ["tools", "toolz"]}, "offers: unknown 'toolz'; there are tools, resources"),
        ({"cache": {"tools/call": Cache()}}, "cache: unknown 'tools/call'; there are .*tools/list"),
        ({"page_size": 0}, "page_size must be at least 1, or None for one page, got 0"),
        ({"question_timeout": 0}, "question_timeout must be a number of seconds above 0, got 0"),
        ({"max_running": 0}, "max_running must be at least 1"),
        ({"tasks": "workers"}, "say where they are, as in shared=Sqlite"),
        ({"tasks": Tasks(slots=0)}, r"Tasks\("),
    ],
)
def test_an_argument_out_of_range_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Server("s", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"offers": "logging"}, "offers must be a set such as {'logging'}, got 'logging'"),
        ({"page_size": "10"}, "page_size must be a whole number, or None for one page, got '10'"),
        ({"processes": True}, "processes must be a whole number, or None for one a processor, got True"),
        ({"question_timeout": None}, "question_timeout must be a number of seconds above 0, got None"),
    ],
)
def test_an_argument_of_another_type_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        Server("s", **options)


@pytest.mark.parametrize("shared", ["notes.db", {}, Memory])
def test_shared_that_is_no_engine_is_refused(shared: Any) -> None:
    with pytest.raises(TypeError, match=r"shared must be an engine such as .*, got"):
        Server("s", shared=shared)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"port": 9000},
            ValueError,
            'run("stdio") has no option \'port\'. To serve over HTTP, write run("http", port=...)',
        ),
        (
            {"prot": 9000},
            ValueError,
            "run(\"stdio\") has no option 'prot'. Its options are grace (seconds), max_line (bytes) and principal",
        ),
        ({"grace": "3"}, TypeError, "grace must be a number of seconds from 0, got '3'"),
        ({"grace": -1}, ValueError, "grace must be a number of seconds from 0, got -1"),
        (
            {"max_line": "1 MiB"},
            TypeError,
            "max_line must be a whole number of bytes, such as 64 * 1024 * 1024, got",
        ),
        ({"max_line": 0}, ValueError, "max_line must be at least 1, got 0"),
        ({"principal": lambda scope: None}, TypeError, "principal must be a Principal"),
    ],
)
def test_run_stdio_wrong_option_is_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Server("s").run(**options)
