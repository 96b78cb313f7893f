"""Options of a server and of its decorators: groups of options, and what is refused."""

import re
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from mcpkit import Access, HttpOptions, Limits, ResultOptions, Server, ServerOptions, TaskOptions, Timeouts
from mcpkit._utils.exceptions import RegistrationError
from mcpkit.storage import Memory
from mcpkit.testing import connect
from tests.helpers.tables import each_row


@pytest.mark.parametrize("group", [Access, HttpOptions, Limits, ResultOptions, ServerOptions, Timeouts])
def test_group_is_frozen_and_replaceable(group: Any) -> None:
    made = group()
    assert made == group() == replace(made)
    with pytest.raises(FrozenInstanceError):
        setattr(made, next(iter(vars(made))), None)


def of_server(**options: Any) -> Any:
    return lambda: Server("s", **options)


def of_tool(**options: Any) -> Any:
    return lambda: Server("s").tool(name="f", **options)(lambda: None)


def of_run(**options: Any) -> Any:
    return lambda: Server("s").run(**options)


@each_row(("make", "error", "message"), [
    (lambda: Limits(max_session=3), TypeError, "no option 'max_session'. Did you mean 'max_sessions'?"),
    (lambda: Limits(nonsense=3), TypeError, "Its options are worker_threads,"),
    (lambda: Limits(page_size=0), ValueError, "must be at least 1, or None for one page"),
    (lambda: Limits(max_request_body_size="4m"), TypeError, "must be an integer of bytes"),
    (lambda: Limits(worker_processes=True), TypeError, "or None for one per processor, got True"),
    (lambda: Limits(replay_buffer_bytes=-1), ValueError, "must be at least 0, got -1"),
    (lambda: Timeouts(client_request=None), TypeError, "must be a number of seconds above 0, got None"),
    (lambda: Timeouts(request_body=float("nan")), ValueError, "Timeouts(request_body=...) must be"),
    (lambda: Timeouts(shutdown=-1), ValueError, "seconds of at least 0, or None, got -1"),
    (lambda: HttpOptions(readiness_path=1), TypeError, "must be a path such as '/mcp', got 1"),
    (lambda: HttpOptions(sse="yes"), TypeError, "HttpOptions(sse=...) must be True or False, got 'yes'"),
    (lambda: HttpOptions(principal=3), TypeError, "must be a function of the ASGI scope"),
    (lambda: HttpOptions(sse_ping_interval=0), ValueError, "must be a number of seconds above 0, got 0"),
    (lambda: ServerOptions(capabilities="logging"), TypeError, "must be a set such as {'logging'}"),
    (lambda: ServerOptions(capabilities=["toolz"]), ValueError, "'toolz'; expected one of tools,"),
    (lambda: ServerOptions(cache={"tools/call": None}), ValueError, "unknown value 'tools/call'"),
    (lambda: ServerOptions(on_duplicate="drop"), ValueError, "expected one of error, replace"),
    (lambda: ResultOptions(text="xml"), ValueError, 'must be "json", "none" or a function'),
    (lambda: Access(visible="all"), RegistrationError, "must be a function of the principal"),
    (lambda: Access(scopes="a", allow_anonymous=True), RegistrationError, "Remove one of the two"),
    (of_tool(titel="x"), TypeError, "tool 'f' has no option 'titel'. Did you mean 'title'?"),
    (of_tool(scopes="a", access=Access()), TypeError, "Write Access(scopes=...) alone"),
    (of_tool(access="a"), TypeError, "access must be Access(...), got 'a'"),
    (of_tool(run_in="fiber"), RegistrationError, 'run_in must be "thread", "process" or "loop"'),
    (of_server(options={}), TypeError, "options must be ServerOptions(...), got {}"),
    (of_server(timeouts="1 s"), TypeError, "Timeouts(call=...) must be a number of seconds above 0, or None"),
    (of_server(lifespan=3), TypeError, "lifespan must be a function of the server"),
    (of_server(tasks="workers"), ValueError, 'Pass a shared storage, for example storage=Sqlite("tasks.db")'),
    (of_server(tasks=TaskOptions(slots=0)), ValueError, "TaskOptions("),
    (of_server(naem="x"), TypeError, "Server() has no option 'naem'."),
    (of_server(mask_error=True), TypeError, "Did you mean 'mask_error_details'?"),
    (of_server(max_sessions=3), TypeError, "Write limits=Limits(max_sessions=...)"),
    (of_server(storage=Memory), TypeError, "storage must be a storage such as"),
    (of_run(port=9000), TypeError, 'To serve clients at a port, write run("http", port=...)'),
    (of_run(http=HttpOptions(principal=lambda scope: None)), TypeError, "over stdio there is one user"),
])  # fmt: skip
def test_option_that_is_invalid_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make()


def test_timeouts_that_is_a_number_limits_calls() -> None:
    assert Server("s", timeouts=3).engine.runtime.timeouts == Timeouts(call=3)


async def test_unknown_arguments_ignored_are_dropped() -> None:
    server = Server("s", options=ServerOptions(unknown_arguments="ignore"))

    @server.tool
    def plan(days: int) -> int:
        return days

    @server.tool(input_schema={"days": int})
    def draft(arguments: dict[str, Any]) -> int:
        assert arguments == {"days": 3}
        return 3

    async with connect(server) as client:
        for name in ("plan", "draft"):
            assert (await client.call_tool(name, {"days": 3, "daze": 4})).text == "3"
        assert (await client.call_tool("plan", {"daze": "4"})).is_error
        (plan_tool, *_) = await client.list_tools()
        assert plan_tool["inputSchema"]["additionalProperties"] is True


async def test_duplicate_replaces_the_first_where_the_server_allows_it() -> None:
    server = Server("s", options=ServerOptions(on_duplicate="replace"))
    server.tool(lambda: 1, name="one")
    server.tool(lambda: 2, name="one")
    async with connect(server) as client:
        assert (await client.call_tool("one", {})).text == "2"
