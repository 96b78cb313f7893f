"""Functions in worker processes: what they return and raise, and that they end."""

import asyncio
import os
import threading
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Limits, ProtocolError, RegistrationError, ResultOptions, Server, ToolError
from mcpkit._utils.exceptions import ArgumentsError, ProcessEndedError
from mcpkit.exceptions import ResourceNotFoundError
from mcpkit.execution.worker_processes import Processes, kill_workers
from mcpkit.testing import connect
from tests.helpers import process_functions as work
from tests.helpers.process_client import ROOT, call
from tests.helpers.serving import from_text, serving
from tests.helpers.tables import each_row
from tests.helpers.waiting import over, until


@pytest.fixture(scope="module")
def processes() -> Processes:
    """One worker for most of the tests, as to start one takes a while."""
    return Processes(1)


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


async def process_of(folder: Path) -> int:
    """Return the process id that a function has written to a folder."""
    await until((folder / "process").exists)
    return int((folder / "process").read_text())


# What it returns


async def test_function_with_an_importable_name_runs_in_a_process(processes: Processes) -> None:
    functions: list[tuple[Any, dict[str, Any], Any]] = [
        (work.add, {"a": 2}, 3), (work.add_later, {"a": 2, "b": 3}, 5), (partial(work.add, 5), {"b": 4}, 9),
        (work.Scales(3).weigh, {"weight": 7}, 21), (work.Scales.units, {}, "kg"),
    ]  # fmt: skip
    values = [await processes.run(function, kwargs) for function, kwargs, _ in functions]
    assert values == [value for *_, value in functions]


async def test_workers_do_not_exceed_the_limit() -> None:
    processes = Processes(2)
    places = await asyncio.gather(*(processes.run(work.where, {}) for _ in range(8)))
    assert len({place.process for place in places}) <= 2


async def test_results_are_made_in_the_worker() -> None:
    server = Server("s", limits=Limits(worker_processes=1))
    server.tool(run_in="process", result=ResultOptions(text=work.described))(work.where)
    for function in (work.shown, work.numbers, work.numbers_later):
        server.tool(run_in="process")(function)
        server.prompt(run_in="process")(function)
        server.resource(f"data://{function.__name__}", run_in="process")(function)
    async with connect(server) as client:
        result = await client.call_tool("where")
        worker = result.structured_content["process"]
        assert worker != os.getpid()
        assert result.text == f"Place in {worker}"
        texts = [block["text"] for block in (await client.call_tool("shown")).content]
        assert texts == [f"shown in {worker}", "text"]
        assert (await client.read_resource("data://shown"))[0]["text"] == f"shown in {worker}"
        assert (await client.get_prompt("shown"))[0]["content"]["text"] == f"shown in {worker}"
        for name in ("numbers", "numbers_later"):
            assert (await client.call_tool(name)).text == f'[{worker},{{"a":2}}]'
            assert (await client.read_resource(f"data://{name}"))[0]["text"] == f'[{worker},{{"a":2}}]'
            assert (await client.get_prompt(name))[0]["content"]["text"] == str(worker)


# What it raises


@each_row(("how", "kind", "text", "attributes"), [
    ("tool", ToolError, "the text", {}),
    ("talkative", work.TalkativeError, "something is wrong with x", {"code": 7}),
    ("local", ToolError, "of here", {}),
    ("protocol", ProtocolError, "the message", {"code": -31000, "data": {"a": 1}}),
    ("missing", ResourceNotFoundError, "Resource not found: data://x", {}),
    ("arguments", ArgumentsError, "field: is wrong", {}), ("value", ValueError, "internal", {}),
    ("exit", SystemExit, "3", {}),
])  # fmt: skip
async def test_exception_of_a_worker_process_keeps_its_type_text_and_attributes(
    how: str, kind: type[BaseException], text: str, attributes: dict[str, Any], processes: Processes
) -> None:
    with pytest.raises(kind) as caught:
        await processes.run(work.fail, {"how": how})
    assert type(caught.value) is kind
    assert str(caught.value) == text
    assert {name: getattr(caught.value, name) for name in attributes} == attributes
    assert not hasattr(caught.value, "lock")
    assert "process_functions.py" in str(caught.value.__cause__)  # for the log


@pytest.mark.parametrize(("how", "name"), [("interrupt", "KeyboardInterrupt"), ("stop", "StopIteration")])
async def test_keyboard_interrupt_of_a_worker_ends_the_call(how, name, processes) -> None:
    with pytest.raises(RuntimeError, match=f"the function raised {name}") as caught:
        await processes.run(work.fail, {"how": how})
    assert "process_functions.py" in str(getattr(caught.value.__cause__, "__cause__", None))  # for the log


async def test_value_that_cannot_be_pickled_is_an_error(processes: Processes) -> None:
    before = await processes.run(work.where, {})
    for function, kwargs in [(work.unpicklable, {}), (work.add, {"a": threading.Lock()})]:
        with pytest.raises(TypeError, match="pickle"):
            await processes.run(function, kwargs)
    with pytest.raises(ToolError, match=r"<unlocked _thread\.lock"):
        await processes.run(work.fail, {"how": "unpicklable"})
    assert await processes.run(work.where, {}) == before


@pytest.mark.slow
async def test_worker_that_dies_is_an_error_and_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    processes = Processes(1)
    before = await processes.run(work.where, {})
    with pytest.raises(ProcessEndedError, match=r"without a result \(exit code 3\)"):
        await processes.run(work.fail, {"how": "end"})
    after = await processes.run(work.where, {})
    assert after.process != before.process
    assert [record.getMessage() for record in caplog.records] == [
        "a worker process exited without a result (exit code 3). Its call fails; the next one starts a new process"
    ]


async def test_module_not_importable_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_once.py").write_text(
        f"import os\nif os.getpid() != {os.getpid()}:\n    raise SystemExit(5)\ndef work(): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_once

    with pytest.raises(ProcessEndedError, match="exit code 5 during startup"):
        await Processes(1).run(only_once.work, {})


# Its end


@pytest.mark.slow
async def test_cancelled_call_kills_its_worker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    processes = Processes(1)
    call = asyncio.create_task(processes.run(work.spin, {"folder": str(tmp_path)}))
    process = await process_of(tmp_path)
    await over(call)
    await until(lambda: not is_alive(process))
    assert await processes.run(work.add, {"a": 1}) == 2
    assert caplog.records == []


@pytest.mark.slow
async def test_workers_of_a_deleted_pool_end() -> None:
    processes = Processes(1)
    place = await processes.run(work.where, {})
    del processes
    await until(lambda: not is_alive(place.process))


@pytest.mark.slow
async def test_kill_workers_ends_all_workers(tmp_path: Path) -> None:
    processes = Processes(2)
    call = asyncio.create_task(processes.run(work.spin, {"folder": str(tmp_path)}))
    process = await process_of(tmp_path)
    idle = (await processes.run(work.where, {})).process
    kill_workers()
    await until(lambda: not is_alive(process) and not is_alive(idle))
    with pytest.raises(ProcessEndedError, match="killed by SIGKILL"):
        await call


# What is refused


def local_functions() -> tuple[Any, Any]:
    class Local:
        def __call__(self) -> None: ...

    return Local(), Local().__call__


LOCAL_OBJECT, LOCAL_METHOD = local_functions()
INNER = "is defined inside another function"


@each_row(("function", "message"), [
    (lambda: None, "a lambda has no name"), (LOCAL_METHOD, f"{INNER}. Define it at the top level of a module"),
    (partial(LOCAL_METHOD), INNER), (LOCAL_OBJECT, INNER),
    (work.takes_context, "gets no Context and no dependencies. Remove the parameter 'ctx'"),
])  # fmt: skip
def test_function_that_cannot_run_in_a_process_is_refused(function: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Server("s").tool(name="f", run_in="process")(function)


def test_function_with_name_of_another_object_is_refused() -> None:
    server = Server("s")
    server.tool(name="f", run_in="process")(work.kept)
    with pytest.raises(
        RegistrationError, match=r"cannot import the function by its name: .*not the same object"
    ):
        server.catalog.resolve()


# Functions that fork

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="has no fork")
WAYS = [
    ("function", "return"), ("thread", "return"), ("generator", "return"), ("coroutine", "return"),
    ("function", "_exit"), ("function", "interrupt"), ("coroutine", "exec"),
]  # fmt: skip
"""Where a child is forked, and how it ends."""


@FORKS
@pytest.mark.long
async def test_no_child_answers_for_a_worker(processes: Processes) -> None:
    workers, children = set(), []
    for token, (where, how) in enumerate(WAYS):
        kwargs = {"where": where, "how": how, "token": token}
        number, worker, child = await processes.run(work.fork, kwargs, list)
        assert number == token, (where, how)
        workers.add(worker)
        children.append(child)
    assert len(workers) == 1
    await until(lambda: not any(map(is_alive, children)))


@FORKS
@pytest.mark.long
async def test_result_of_another_call_is_dropped(processes, caplog) -> None:
    assert await processes.run(work.forge, {"number": 0}) == "real"
    assert "sent two results for one call, as after a fork" in caplog.text


PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.helpers import process_functions as work
from mcpkit import Server

server = Server("forking")
server.tool(work.fork)
server.tool(work.fork, name="quick", run_in="loop")
app = server.asgi()
"""


@FORKS
@pytest.mark.long
def test_no_child_keeps_the_port() -> None:
    import httpx

    with serving(from_text(PROGRAM)) as served:
        with httpx.Client(base_url=served.origin, headers={"Accept": "application/json"}) as client:
            ways = [*WAYS, ("function", "exit"), ("function", "raise")]
            for number, (name, (where, how)) in enumerate(product(["fork", "quick"], ways)):
                if (name, where) == ("quick", "thread"):
                    continue
                request = call(number, name, where=where, how=how, token=0)
                headers = {"Mcp-Method": "tools/call", "Mcp-Name": name, "MCP-Protocol-Version": "2026-07-28"}
                answer = client.post("/mcp", json=request, headers=headers).json()
                assert answer["id"] == number
                child = answer["result"]["content"][0]["text"].strip("[]").split(",")[-1]
                asyncio.run(until(lambda child=child: not is_alive(int(child))))
        assert "ValueError: in the child" in served.notes
