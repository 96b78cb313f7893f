"""Groups of options: `Limits`, `Timeouts`, `HttpOptions`, `ServerOptions`, `Access`, `ResultOptions`."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from mcpkit import Access, HttpOptions, Limits, ResultOptions, Server, ServerOptions, Timeouts
from mcpkit.common.errors import RegistrationError
from mcpkit.testing import connect
from tests.helpers.tables import each_row

GROUPS: list[Any] = [Access, HttpOptions, Limits, ResultOptions, ServerOptions, Timeouts]


@pytest.mark.parametrize("group", GROUPS)
def test_group_is_frozen_and_replaceable(group: Any) -> None:
    made = group()
    assert made == group() == replace(made)
    with pytest.raises(FrozenInstanceError):
        setattr(made, next(iter(vars(made))), None)


@each_row(
    ("make", "error", "message"),
    [
        (lambda: Limits(max_session=3), TypeError, "no option 'max_session'. Did you mean 'max_sessions'?"),
        (lambda: Limits(nonsense=3), TypeError, "Its options are worker_threads,"),
        (lambda: Limits(page_size=0), ValueError, "must be at least 1, or None for one page"),
        (lambda: Limits(max_request_body_size="4m"), TypeError, "must be an integer of bytes"),
        (lambda: Limits(max_sessions=1.5), TypeError, "must be an integer, got 1.5"),
        (lambda: Limits(worker_processes=True), TypeError, "or None for one per processor, got True"),
        (lambda: Limits(replay_buffer_bytes=-1), ValueError, "must be at least 0, got -1"),
        (lambda: Timeouts(client_request=None), TypeError, "must be a number of seconds above 0, got None"),
        (lambda: Timeouts(request_body=float("nan")), ValueError, "Timeouts(request_body=...) must be"),
        (lambda: Timeouts(session_max_age=float("inf")), ValueError, "Timeouts(session_max_age=...) must be"),
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
    ],
)
def test_option_of_group_that_is_invalid_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        make()


@each_row(
    ("options", "error", "message"),
    [
        ({"titel": "x"}, TypeError, "tool 'f' has no option 'titel'. Did you mean 'title'?"),
        ({"visible": bool}, TypeError, "Write access=Access(visible=...)"),
        ({"structured": False}, TypeError, "Write result=ResultOptions(structured=...)"),
        ({"scopes": "a", "access": Access()}, TypeError, "Write Access(scopes=...) alone"),
        ({"access": "a"}, TypeError, "access must be Access(...), got 'a'"),
        ({"run_in": "fiber"}, RegistrationError, 'run_in must be "thread", "process" or "loop"'),
    ],
)
def test_option_of_decorator_that_is_invalid_is_refused(options: Any, error: Any, message: str) -> None:
    server = Server("s")
    with pytest.raises(error, match=re.escape(message)):
        server.tool(name="f", **options)(lambda: None)


@pytest.mark.anyio
async def test_unknown_arguments_ignored_are_dropped() -> None:
    server = Server("s", options=ServerOptions(unknown_arguments="ignore"))

    @server.tool
    def plan(days: int) -> int:
        return days

    @server.tool(input_schema={"days": int})
    def draft(arguments: dict[str, Any]) -> int:
        assert arguments == {"days": 3}
        return 3

    @server.tool
    def note(**fields: Any) -> list[str]:
        return sorted(fields)

    async with connect(server) as client:
        for name in ("plan", "draft"):
            assert (await client.call_tool(name, {"days": 3, "daze": 4})).text == "3"
        assert (await client.call_tool("plan", {"daze": "4"})).is_error
        assert (await client.call_tool("note", {"a": 1})).text == '["a"]'
        (plan_tool, *_) = await client.list_tools()
        assert plan_tool["inputSchema"]["additionalProperties"] is True


@pytest.mark.anyio
async def test_duplicate_replaces_the_first_where_the_server_says_so() -> None:
    server = Server("s", options=ServerOptions(on_duplicate="replace"))
    server.tool(lambda: 1, name="one")
    server.tool(lambda: 2, name="one")
    async with connect(server) as client:
        assert (await client.call_tool("one", {})).text == "2"
