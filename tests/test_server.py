"""What a server is told about itself is checked at once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mcpkit import HttpOptions, Server, TaskOptions, Timeouts
from mcpkit.storage import Memory
from tests.helpers.tables import each_row


@each_row(
    ("options", "error", "message"),
    [
        ({"options": {}}, TypeError, "options must be ServerOptions(...), got {}"),
        ({"limits": 3}, TypeError, "limits must be Limits(...), got 3"),
        ({"timeouts": "1 s"}, TypeError, "Timeouts(call=...) must be a number of seconds above 0, or None"),
        ({"lifespan": 3}, TypeError, "lifespan must be a function of the server"),
        ({"tasks": "workers"}, ValueError, 'Pass a shared storage, for example storage=Sqlite("tasks.db")'),
        ({"tasks": TaskOptions(slots=0)}, ValueError, "TaskOptions("),
        ({"naem": "x"}, TypeError, "Server() has no option 'naem'."),
        ({"mask_error": True}, TypeError, "Did you mean 'mask_error_details'?"),
        ({"max_sessions": 3}, TypeError, "Write limits=Limits(max_sessions=...)"),
        ({"encrypt_state": True}, TypeError, "Write options=ServerOptions(encrypt_state=...)"),
    ],
)
def test_option_that_is_invalid_is_refused(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Server("s", **options)


def test_timeouts_that_is_a_number_limits_calls() -> None:
    assert Server("s", timeouts=3).engine.runtime.timeouts == Timeouts(call=3)


@pytest.mark.parametrize("shared", ["notes.db", {}, Memory])
def test_shared_that_is_no_engine_is_refused(shared: Any) -> None:
    with pytest.raises(TypeError, match=r"storage must be a storage such as .*, got"):
        Server("s", storage=shared)


@each_row(
    ("options", "error", "message"),
    [
        ({"port": 9000}, TypeError, 'To serve clients at a port, write run("http", port=...)'),
        ({"http": HttpOptions(principal=lambda scope: None)}, TypeError, "over stdio there is one user"),
    ],
)
def test_run_stdio_wrong_option_is_refused(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Server("s").run(**options)
