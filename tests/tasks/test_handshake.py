"""Tasks of 2025-11-25: what they ask, whose they are, and what is one with those of 2026-07-28."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from mcpkit import (
    AnswerError,
    Ask,
    Context,
    Elicit,
    Memory,
    Principal,
    Scope,
    Server,
    Sqlite,
    Task,
)
from mcpkit.testing import connect
from tests.helpers import task_client
from tests.helpers.handshake_tasks import ADA, BOB, RELATED, Speak, begin, ended, look, server_of
from tests.helpers.pipe import Pipe
from tests.helpers.task_client import KNOWS_TASKS

pytestmark = pytest.mark.anyio

SECRET = "a secret of sixteen and more"
RERUNS = ["safe", "never"]


@dataclass
class Name:
    name: str


async def sign(ctx: Context) -> str:
    """Ask two at once."""
    first, second = await ctx.ask(Elicit("First?", Name), Elicit("Second?", Name))
    return f"{first.value.name} and {second.value.name}"


async def sure(ctx: Context) -> str:
    """Ask one thing."""
    return (await ctx.elicit("Sure?", bool)).action


async def hold() -> None:
    """Go on."""
    await asyncio.Event().wait()


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def asked(pipe: Pipe, id_: str) -> dict[str, Any]:
    """Return the next question of a task to a client that looks for it, and does not ask for its result."""
    while (await look(pipe, id_))["status"] != "input_required":
        await asyncio.sleep(0.002)
    await look(pipe, id_)
    return await pipe.question("elicitation/create")


def about(question: dict[str, Any], id_: str) -> str:
    """Return what is asked, which belongs to a task."""
    assert question["params"]["_meta"][RELATED] == {"taskId": id_}
    return str(question["params"]["message"])


# What is asked


@pytest.mark.parametrize("rerun", RERUNS)
@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "polling"])
async def test_what_a_task_asks_is_asked_once_and_its_answers_count(
    speak: Speak, rerun: Any, waits: bool
) -> None:
    async with speak(server_of(sign, task=Task(rerun=rerun))) as pipe:
        id_ = (await begin(pipe, "sign"))["taskId"]
        waiting = pipe.start("tasks/result", {"taskId": id_}) if waits else None
        first = await (pipe.question("elicitation/create") if waits else asked(pipe, id_))
        second = await pipe.question("elicitation/create")
        questions = {about(question, id_): question for question in (first, second)}
        assert questions.keys() == {"First?", "Second?"}
        assert (await look(pipe, id_))["status"] == "input_required"
        pipe.reply(questions["Second?"], accepted(name="Bob"))
        pipe.reply(questions["First?"], accepted(name="Ada"))
        if waiting is None:
            waiting = pipe.start("tasks/result", {"taskId": id_})
        while (message := await pipe.receive()).get("id") != waiting:
            assert message["method"] == "notifications/tasks/status"
        assert message["result"]["content"][0]["text"] == "Ada and Bob"


@pytest.mark.parametrize("rerun", RERUNS)
async def test_an_entry_that_does_not_fit_is_asked_for_again(speak: Speak, rerun: Any) -> None:
    async def age(ctx: Context) -> int:
        """Ask for a number."""
        return (await ctx.elicit("Age?", int)).value

    async with speak(server_of(age, task=Task(rerun=rerun))) as pipe:
        id_ = (await begin(pipe, "age"))["taskId"]
        question = await asked(pipe, id_)
        pipe.reply(question, accepted(value="old"))
        again = await pipe.question("elicitation/create")
        assert about(again, id_).startswith("Age?\n\n")
        pipe.reply(again, accepted(value=36))
        assert (await pipe.result("tasks/result", {"taskId": id_}))["structuredContent"] == {"result": 36}


@pytest.mark.parametrize("rerun", RERUNS)
async def test_a_client_that_refuses_to_answer_is_heard(speak: Speak, rerun: Any) -> None:
    async def ask(ctx: Context) -> str:
        """Ask."""
        try:
            await ctx.elicit("Sure?", bool)
        except AnswerError as error:
            return f"{error}"
        return "answered"

    async with speak(server_of(ask, task=Task(rerun=rerun))) as pipe:
        id_ = (await begin(pipe, "ask"))["taskId"]
        question = await asked(pipe, id_)
        refusal = {"code": -1, "message": "not now"}
        pipe.send({"jsonrpc": "2.0", "id": question["id"], "error": refusal})
        result = await pipe.result("tasks/result", {"taskId": id_})
        assert result["content"][0]["text"] == "The client refused to answer: not now"


async def test_what_is_answered_elsewhere_is_taken_back(speak: Speak) -> None:
    """Whichever client answers first is heard; the other is told that it need not."""
    server = server_of(sure)
    async with speak(server) as one, speak(server) as other:
        id_ = (await begin(one, "sure"))["taskId"]
        first = await asked(one, id_)
        waiting = other.start("tasks/result", {"taskId": id_})
        second = await other.question("elicitation/create")
        other.reply(second, {"action": "decline"})
        while (message := await other.receive()).get("id") != waiting:
            pass
        assert message["result"]["content"][0]["text"] == "decline"
        while (message := await one.receive())["method"] != "notifications/cancelled":
            pass
        assert message["params"]["requestId"] == first["id"]


async def test_what_was_asked_for_a_request_that_ends_is_asked_elsewhere(speak: Speak) -> None:
    server = server_of(sure)
    async with speak(server) as one, speak(server) as other:
        id_ = (await begin(one, "sure"))["taskId"]
        await asked(one, id_)
        waiting = other.start("tasks/result", {"taskId": id_})
        question = await other.question("elicitation/create")
        for _ in range(2):
            await look(other, id_)
        other.cancel(waiting)
        taken_back = await other.receive()
        assert taken_back["method"] == "notifications/cancelled"
        assert taken_back["params"]["requestId"] == question["id"]
        again = await other.question("elicitation/create")  # on the pipe, which goes on
        other.reply(again, accepted(value=True))
        assert (await ended(other, id_))["status"] == "completed"


async def test_a_client_that_cannot_be_asked_is_not(speak: Speak) -> None:
    server = server_of(sure)
    async with speak(server) as one, speak(server, capabilities={}) as mute:
        id_ = (await begin(one, "sure"))["taskId"]
        question = await asked(one, id_)
        waiting = mute.start("tasks/result", {"taskId": id_})
        assert (await look(mute, id_))["status"] == "input_required"
        one.reply(question, {"action": "cancel"})
        while (message := await mute.receive()).get("id") != waiting:
            assert message["method"] == "notifications/tasks/status"
        assert message["result"]["content"][0]["text"] == "cancel"


async def test_a_task_of_a_client_that_cannot_be_asked_says_so(speak: Speak) -> None:
    async with speak(server_of(sure), capabilities={}) as pipe:
        id_ = (await begin(pipe, "sure"))["taskId"]
        result = await pipe.result("tasks/result", {"taskId": id_})
        assert result["isError"]
        assert "elicitation" in result["content"][0]["text"]


# What is asked before there is a task


async def reserve(table: Annotated[int, Ask("Which table?")], ctx: Context) -> str:
    """Ask before and in its midst."""
    return f"table {table}, {(await ctx.elicit('Quiet?', bool)).value}"


async def test_what_is_asked_before_there_is_a_task_belongs_to_none(speak: Speak) -> None:
    async with speak(server_of(reserve, task=Task(required=True))) as pipe:
        making = pipe.start("tools/call", {"name": "reserve", "arguments": {}, "task": {}})
        before = await pipe.question("elicitation/create")
        assert before["params"]["message"] == "Which table?"
        assert "_meta" not in before["params"]
        pipe.reply(before, accepted(value=7))
        made = await pipe.receive()
        assert made["id"] == making
        id_ = made["result"]["task"]["taskId"]
        question = await asked(pipe, id_)
        assert about(question, id_) == "Quiet?"
        pipe.reply(question, accepted(value=True))
        assert (await pipe.result("tasks/result", {"taskId": id_}))["content"][0]["text"] == "table 7, True"


async def test_a_user_who_declines_before_there_is_a_task_has_it_fail(speak: Speak) -> None:
    async with speak(server_of(reserve)) as pipe:
        making = pipe.start("tools/call", {"name": "reserve", "arguments": {}, "task": {}})
        pipe.reply(await pipe.question("elicitation/create"), {"action": "decline"})
        made = await pipe.receive()
        assert made["id"] == making
        id_ = made["result"]["task"]["taskId"]
        assert (await pipe.result("tasks/result", {"taskId": id_}))["isError"]
        assert (await look(pipe, id_))["status"] == "failed"


async def test_a_client_that_refuses_before_there_is_a_task_gets_none(speak: Speak) -> None:
    async with speak(server_of(reserve)) as pipe:
        making = pipe.start("tools/call", {"name": "reserve", "arguments": {}, "task": {}})
        question = await pipe.question("elicitation/create")
        pipe.send({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "not now"}})
        refused = await pipe.receive()
        assert refused["id"] == making
        assert "not now" in refused["error"]["message"]
        assert (await pipe.result("tasks/list"))["tasks"] == []


# Whose they are


class Counted(Memory):
    """Counts the looks at jobs."""

    looks = 0

    async def look(self, key: str) -> Any:
        self.looks += 1
        return await super().look(key)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
async def test_a_task_of_somebody_else_is_unknown_without_a_look(speak: Speak, method: str) -> None:
    engine = Counted()
    server = server_of(hold, shared=engine, secret=SECRET)
    async with speak(server) as ada, speak(server, BOB) as bob, speak(server, Principal(None)) as nobody:
        id_ = (await begin(ada, "hold"))["taskId"]
        await ada.answered()
        looks = engine.looks
        for other in (bob, nobody):
            error = await other.error(method, {"taskId": id_})
            assert error["code"] == -32602
            assert error["message"].startswith("Unknown task")
        assert engine.looks == looks
        assert (await look(ada, id_))["status"] == "working"


async def test_who_is_not_identified_lists_nothing_and_finds_what_it_knows_the_id_of(speak: Speak) -> None:
    async with speak(server_of(add), Principal(None)) as pipe:
        id_ = (await begin(pipe, "add", {"a": 1, "b": 2}))["taskId"]
        assert (await pipe.error("tasks/list"))["code"] == -32601
        assert (await ended(pipe, id_))["status"] == "completed"


async def test_a_list_has_ones_own_tasks_in_pages(speak: Speak, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpkit.tasks.handshake._PAGE", 2)
    server = server_of(hold, add)
    async with speak(server) as ada, speak(server, BOB) as bob:
        made = [(await begin(ada, "hold"))["taskId"] for _ in range(4)]
        made.append((await begin(ada, "add", {"a": 1, "b": 2}))["taskId"])
        await ended(ada, made[-1])
        theirs = (await begin(bob, "hold"))["taskId"]
        listed: list[dict[str, Any]] = []
        page: dict[str, Any] = await ada.result("tasks/list")
        while "nextCursor" in page:
            assert len(page["tasks"]) == 2
            listed += page["tasks"]
            page = await ada.result("tasks/list", {"cursor": page["nextCursor"]})
        listed += page["tasks"]
        assert [task["taskId"] for task in listed] == made[::-1]
        assert listed[0] == await look(ada, made[-1])
        assert [task["taskId"] for task in (await bob.result("tasks/list"))["tasks"]] == [theirs]
        for cursor in ("x", 5, theirs, made[0] + "x", ""):
            error = await ada.error("tasks/list", {"cursor": cursor})
            assert (error["code"], error["message"][:14]) == (-32602, "Invalid cursor")


async def test_a_cursor_whose_task_has_expired_is_invalid(
    speak: Speak, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.tasks.handshake._PAGE", 1)
    monkeypatch.setattr("mcpkit.tasks.handshake._SHORTEST", 0.0)
    server = server_of(hold, add)
    async with speak(server) as pipe:
        await begin(pipe, "hold")
        id_ = (await begin(pipe, "add", {"a": 1, "b": 2}, ttl=1))["taskId"]
        await pipe.request("tasks/result", {"taskId": id_})
        while "result" in (seen := await pipe.request("tasks/get", {"taskId": id_})):
            await asyncio.sleep(0.002)
        assert seen["error"]["code"] == -32602
        assert (await pipe.error("tasks/list", {"cursor": id_}))["message"].startswith("Invalid cursor")


async def test_each_request_needs_the_scopes_of_the_call_as_they_are_today(speak: Speak) -> None:
    server = Server("lab", scopes={"train": Scope("Train")})
    server.tool(hold, task=True, scopes="train")
    server.tool(add, task=True)
    may, may_not = Principal("ada", ["train"]), Principal("ada")
    async with speak(server, may) as before, speak(server, may_not) as today:
        id_ = (await begin(before, "hold"))["taskId"]
        other = (await begin(before, "add", {"a": 1, "b": 2}))["taskId"]
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            error = await today.error(method, {"taskId": id_})
            assert "train" in str(error)
        assert [task["taskId"] for task in (await today.result("tasks/list"))["tasks"]] == [other]
        assert [task["taskId"] for task in (await before.result("tasks/list"))["tasks"]] == [other, id_]
        assert (await look(before, id_))["status"] == "working"


# One record for both generations


async def test_a_task_of_one_generation_is_one_of_the_other(speak: Speak) -> None:
    server = server_of(add, hold)
    async with speak(server) as pipe, connect(server, capabilities=KNOWS_TASKS, principal=ADA) as client:
        id_ = (await begin(pipe, "add", {"a": 1, "b": 2}))["taskId"]
        old = await ended(pipe, id_)
        new = await task_client.look(client, {"taskId": id_})
        assert (new["status"], new["ttlMs"], new["createdAt"]) == ("completed", old["ttl"], old["createdAt"])
        assert new["result"]["structuredContent"] == {"result": 3}

        made = await task_client.begin(client, "hold")
        assert made["resultType"] == "task"
        assert (await look(pipe, made["taskId"]))["status"] == "working"
        assert (await pipe.result("tasks/cancel", {"taskId": made["taskId"]}))["status"] == "cancelled"
        assert (await task_client.look(client, made))["status"] == "cancelled"

        made = await task_client.begin(client, "add", {"a": 3, "b": 4})
        result = await pipe.result("tasks/result", {"taskId": made["taskId"]})
        assert result["structuredContent"] == {"result": 7}


# On any replica


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("rerun", RERUNS)
async def test_any_replica_waits_asks_and_answers(
    speak: Speak, tmp_path: Path, kind: str, rerun: Any
) -> None:
    engine = Memory() if kind == "memory" else Sqlite(tmp_path / "lab.db")
    servers = [server_of(sign, task=Task(rerun=rerun), shared=engine, secret=SECRET) for _ in range(2)]
    async with speak(servers[0]) as one, speak(servers[1]) as other:
        id_ = (await begin(one, "sign"))["taskId"]
        await asked(one, id_)
        await one.question("elicitation/create")
        waiting = other.start("tasks/result", {"taskId": id_})
        names = {"First?": "Ada", "Second?": "Bob"}
        for _ in range(2):
            question = await other.question("elicitation/create")
            other.reply(question, accepted(name=names[about(question, id_)]))
        while (message := await other.receive()).get("id") != waiting:
            pass
        assert message["result"]["content"][0]["text"] == "Ada and Bob"
        assert (await look(one, id_))["status"] == "completed"
