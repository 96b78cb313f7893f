"""Tasks of 2025-11-25: questions, access, lists, and tasks shared with clients of 2026-07-28."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from mcpkit import Ask, Context, Principal, ProtocolError, Task, ToolError
from mcpkit.elicitation import ElicitRequest
from mcpkit.exceptions import ClientResponseError
from mcpkit.testing import connect
from tests.helpers import task_client
from tests.helpers.handshake_tasks import ADA, BOB, RELATED, OpenPipe, begin, ended, get_task, server_of
from tests.helpers.pipe import Pipe
from tests.helpers.task_client import KNOWS_TASKS


@dataclass
class Name:
    name: str


async def sign(ctx: Context) -> str:
    """Ask two at once."""
    first, second = await ctx.ask(ElicitRequest("First?", Name), ElicitRequest("Second?", Name))
    return f"{first.value.name} and {second.value.name}"


async def sure(ctx: Context) -> str:
    """Ask one thing."""
    return (await ctx.elicit("Sure?", bool)).action


async def wait_forever() -> None:
    """Go on."""
    await asyncio.Event().wait()


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def next_question(pipe: Pipe, id_: str) -> dict[str, Any]:
    """Return the next question of a task to a client that looks for it, and does not ask for its result."""
    while (await get_task(pipe, id_))["status"] != "input_required":
        await asyncio.sleep(0.002)
    await get_task(pipe, id_)
    return await pipe.question("elicitation/create")


def question_text(question: dict[str, Any], id_: str) -> str:
    """Return what is asked, which belongs to a task."""
    assert question["params"]["_meta"][RELATED] == {"taskId": id_}
    return str(question["params"]["message"])


# Options, progress and ends


async def test_failed_task_has_the_message_of_its_tool(open_pipe: OpenPipe) -> None:
    async def fail() -> None:
        """Fail."""
        raise ToolError("it is broken")

    async def refuse() -> None:
        """Refuse."""
        raise ProtocolError(-32001, "not like that", {"why": "so"})

    async with open_pipe(server_of(fail, refuse)) as pipe:
        failed = await ended(pipe, (await begin(pipe, "fail"))["taskId"])
        assert (failed["status"], failed["statusMessage"]) == ("failed", "it is broken")
        assert (await pipe.result("tasks/result", {"taskId": failed["taskId"]}))["isError"] is True
        refused = await ended(pipe, (await begin(pipe, "refuse"))["taskId"])
        assert (refused["status"], refused["statusMessage"]) == ("failed", "not like that")
        error = await pipe.error("tasks/result", {"taskId": refused["taskId"]})
        assert error == {"code": -32001, "message": "not like that", "data": {"why": "so"}}


async def test_call_as_task_must_be_supported_and_may_be_required(open_pipe: OpenPipe) -> None:
    server = server_of(add, task=Task(required=True))
    server.tool(wait_forever)
    async with open_pipe(server) as pipe:
        for params, message in (
            ({"name": "wait_forever", "task": {}}, "does not support calls as a task"),
            ({"name": "add", "arguments": {"a": 1, "b": 2}}, "only supports calls as a task"),
        ):
            error = await pipe.error("tools/call", params)
            assert (error["code"], message in error["message"]) == (-32601, True)


@pytest.mark.parametrize(("ttl", "least", "most"), [(0, 10_000, 99_000), (3_600_000, 3_600_000, 3_700_000)])
async def test_ttl_of_task_is_as_requested_within_limits(open_pipe, ttl, least, most) -> None:
    async with open_pipe(server_of(add)) as pipe:
        params = {"name": "add", "arguments": {"a": 1, "b": 2}, "task": {"ttl": ttl}}
        made = (await pipe.result("tools/call", params))["task"]
        assert least <= (await ended(pipe, made["taskId"]))["ttl"] <= most


async def test_progress_of_task_is_sent_with_the_token_of_its_call(open_pipe: OpenPipe) -> None:
    go = asyncio.Event()

    async def work(ctx: Context) -> None:
        """Work."""
        await ctx.report_progress(1, 2, "half")
        await go.wait()

    async with open_pipe(server_of(work)) as pipe:
        id_ = (await begin(pipe, "work", progressToken="p"))["taskId"]
        waiting = pipe.start("tasks/result", {"taskId": id_})
        while (message := await pipe.receive())["method"] != "notifications/progress":
            assert message["method"] == "notifications/tasks/status"
        assert message["params"].pop("_meta") == {RELATED: {"taskId": id_}}
        assert message["params"] == {"progressToken": "p", "progress": 1, "total": 2, "message": "half"}
        go.set()
        while message.get("id") != waiting:
            message = await pipe.receive()


# Questions


@pytest.mark.parametrize(("rerun", "waits"), [("safe", True), ("never", False)])
async def test_each_question_is_sent_once_and_its_answer_counts(open_pipe, rerun, waits) -> None:
    async with open_pipe(server_of(sign, task=Task(rerun=rerun))) as pipe:
        id_ = (await begin(pipe, "sign"))["taskId"]
        waiting = pipe.start("tasks/result", {"taskId": id_}) if waits else None
        first = await (pipe.question("elicitation/create") if waits else next_question(pipe, id_))
        second = await pipe.question("elicitation/create")
        questions = {question_text(question, id_): question for question in (first, second)}
        assert questions.keys() == {"First?", "Second?"}
        assert (await get_task(pipe, id_))["status"] == "input_required"
        pipe.reply(questions["Second?"], accepted(name="Bob"))
        pipe.reply(questions["First?"], accepted(name="Ada"))
        if waiting is None:
            waiting = pipe.start("tasks/result", {"taskId": id_})
        while (message := await pipe.receive()).get("id") != waiting:
            assert message["method"] == "notifications/tasks/status"
        assert message["result"]["content"][0]["text"] == "Ada and Bob"


async def test_question_answered_by_another_client_is_cancelled(open_pipe: OpenPipe) -> None:
    server = server_of(sure)
    async with open_pipe(server) as one, open_pipe(server) as other:
        id_ = (await begin(one, "sure"))["taskId"]
        first = await next_question(one, id_)
        waiting = other.start("tasks/result", {"taskId": id_})
        second = await other.question("elicitation/create")
        other.reply(second, {"action": "decline"})
        while (message := await other.receive()).get("id") != waiting:
            pass
        assert message["result"]["content"][0]["text"] == "decline"
        while (message := await one.receive())["method"] != "notifications/cancelled":
            pass
        assert message["params"]["requestId"] == first["id"]


async def test_question_of_a_cancelled_request_is_sent_on_another_stream(open_pipe: OpenPipe) -> None:
    async with open_pipe(server_of(sure)) as pipe:
        id_ = (await begin(pipe, "sure"))["taskId"]
        first_stream = pipe.start("tasks/result", {"taskId": id_})
        first = await pipe.question("elicitation/create")
        waiting = pipe.start("tasks/result", {"taskId": id_})
        pipe.cancel(first_stream)
        while (message := await pipe.receive()).get("method") != "notifications/cancelled":
            assert message["method"] == "notifications/tasks/status"
        assert message["params"]["requestId"] == first["id"]
        second = await pipe.question("elicitation/create")
        assert second["id"] != first["id"]
        pipe.reply(second, {"action": "decline"})
        while (message := await pipe.receive()).get("id") != waiting:
            assert message["method"] == "notifications/tasks/status"
        assert message["result"]["content"][0]["text"] == "decline"


async def test_connections_are_closed_with_the_last_context(open_pipe: OpenPipe) -> None:
    server, before = server_of(wait_forever), asyncio.all_tasks()
    async with open_pipe(server) as pipe:
        id_ = (await begin(pipe, "wait_forever"))["taskId"]
        async with server.running():
            pass
        pipe.start("tasks/cancel", {"taskId": id_})
        while (message := await pipe.receive()).get("method") != "notifications/tasks/status":
            pass
        assert message["params"]["status"] == "cancelled"
        await begin(pipe, "wait_forever")
    assert asyncio.all_tasks() == before


# Access


async def test_list_returns_own_tasks_in_pages(open_pipe: OpenPipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpkit.tasks.task_creation_and_methods._PAGE_SIZE", 2)
    server = server_of(wait_forever, add)
    async with open_pipe(server) as ada, open_pipe(server, BOB) as bob:
        made = [(await begin(ada, "wait_forever"))["taskId"] for _ in range(4)]
        made.append((await begin(ada, "add", {"a": 1, "b": 2}))["taskId"])
        await ended(ada, made[-1])
        theirs = (await begin(bob, "wait_forever"))["taskId"]
        listed: list[dict[str, Any]] = []
        page: dict[str, Any] = {"nextCursor": None}
        while "nextCursor" in page:
            cursor = page["nextCursor"]
            page = await ada.result("tasks/list", {"cursor": cursor} if cursor else {})
            assert len(page["tasks"]) == (2 if "nextCursor" in page else 1)
            listed += page["tasks"]
        assert [task["taskId"] for task in listed] == made[::-1]
        assert listed[0] == await get_task(ada, made[-1])
        assert [task["taskId"] for task in (await bob.result("tasks/list"))["tasks"]] == [theirs]
        for cursor in ("x", 5, theirs, made[0] + "x", ""):
            error = await ada.error("tasks/list", {"cursor": cursor})
            assert (error["code"], error["message"][:14]) == (-32602, "Invalid cursor")


# Both generations


async def test_task_is_visible_to_clients_of_both_generations(open_pipe: OpenPipe) -> None:
    server = server_of(add, wait_forever)
    async with open_pipe(server) as pipe, connect(server, capabilities=KNOWS_TASKS, principal=ADA) as client:
        id_ = (await begin(pipe, "add", {"a": 1, "b": 2}))["taskId"]
        old = await ended(pipe, id_)
        new = await task_client.get_task(client, {"taskId": id_})
        assert (new["status"], new["ttlMs"], new["createdAt"]) == ("completed", old["ttl"], old["createdAt"])
        assert new["result"]["structuredContent"] == {"result": 3}

        made = await task_client.begin(client, "wait_forever")
        assert made["resultType"] == "task"
        assert (await get_task(pipe, made["taskId"]))["status"] == "working"
        assert (await pipe.result("tasks/cancel", {"taskId": made["taskId"]}))["status"] == "cancelled"
        assert (await task_client.get_task(client, made))["status"] == "cancelled"
        error = await pipe.error("tasks/cancel", {"taskId": made["taskId"]})
        assert error["message"] == "Cannot cancel task: it has already ended with status 'cancelled'"

        made = await task_client.begin(client, "add", {"a": 3, "b": 4})
        result = await pipe.result("tasks/result", {"taskId": made["taskId"]})
        assert result["structuredContent"] == {"result": 7}


async def reserve(table: Annotated[int, Ask("Which table?")], ctx: Context) -> str:
    """Ask before and in its midst."""
    return f"table {table}, {(await ctx.elicit('Quiet?', bool)).value}"


@pytest.mark.parametrize("rerun", ["safe", "never"])
async def test_error_response_to_a_question_raises_answer_error(open_pipe: OpenPipe, rerun: Any) -> None:
    async def ask(ctx: Context) -> str:
        """Ask."""
        try:
            await ctx.elicit("Sure?", bool)
        except ClientResponseError as error:
            return f"{error}"
        return "answered"

    async with open_pipe(server_of(ask, task=Task(rerun=rerun))) as pipe:
        id_ = (await begin(pipe, "ask"))["taskId"]
        question = await next_question(pipe, id_)
        error = {"code": -1, "message": "not now"}
        pipe.send({"jsonrpc": "2.0", "id": question["id"], "error": error})
        result = await pipe.result("tasks/result", {"taskId": id_})
        assert result["content"][0]["text"] == "The client returned an error: not now"


async def test_question_of_a_parameter_has_no_related_task(open_pipe: OpenPipe) -> None:
    async with open_pipe(server_of(reserve, task=Task(required=True))) as pipe:
        making = pipe.start("tools/call", {"name": "reserve", "arguments": {}, "task": {}})
        before = await pipe.question("elicitation/create")
        assert before["params"]["message"] == "Which table?"
        assert "_meta" not in before["params"]
        pipe.reply(before, accepted(value=7))
        made = await pipe.receive()
        assert made["id"] == making
        id_ = made["result"]["task"]["taskId"]
        question = await next_question(pipe, id_)
        assert question_text(question, id_) == "Quiet?"
        pipe.reply(question, accepted(value=True))
        assert (await pipe.result("tasks/result", {"taskId": id_}))["content"][0]["text"] == "table 7, True"


async def test_anonymous_client_may_get_but_not_list_tasks(open_pipe: OpenPipe) -> None:
    async with open_pipe(server_of(add), Principal(None)) as pipe:
        id_ = (await begin(pipe, "add", {"a": 1, "b": 2}))["taskId"]
        assert (await pipe.error("tasks/list"))["code"] == -32601
        assert (await ended(pipe, id_))["status"] == "completed"
