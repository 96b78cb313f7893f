"""Tasks of 2025-11-25 over HTTP, where each request of a session comes to another process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import httpx2
import pytest

from mcpkit import Context, Server, Task
from tests.helpers.engines import close, make_engine
from tests.helpers.handshake_tasks import RELATED
from tests.helpers.serving import PATIENCE, in_thread

pytestmark = pytest.mark.slow

SECRET = "a secret of sixteen and more"
REVISION = "2025-11-25"


def make_server(engine: Any) -> Server:
    server = Server("lab", secret=SECRET, shared=engine)

    @server.tool(task=Task(rerun="never"))
    async def publish(ctx: Context) -> str:
        """Report, ask, and publish."""
        await ctx.progress(1, 2, "written")
        return f"published: {(await ctx.elicit('Publish?', bool)).value}"

    return server


class Session:
    """A session whose requests come to whichever process it says."""

    def __init__(self, http: httpx2.Client, urls: list[str]) -> None:
        self.http = http
        self.urls = [f"{url}/mcp" for url in urls]
        self.headers = {"accept": "application/json, text/event-stream"}
        self.count = 0
        capabilities = {"elicitation": {}}
        client = {"name": "tests", "version": "1"}
        params = {"protocolVersion": REVISION, "capabilities": capabilities, "clientInfo": client}
        answer = self.post(0, "initialize", params)
        self.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
        self.headers["mcp-protocol-version"] = REVISION
        self.send(1, {"method": "notifications/initialized"})

    def message(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.count += 1
        return {"jsonrpc": "2.0", "id": self.count, "method": method, "params": params}

    def post(self, at: int, method: str, params: dict[str, Any]) -> httpx2.Response:
        return self.http.post(self.urls[at], json=self.message(method, params), headers=self.headers)

    def ask(self, at: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request to one of the processes, and return its answer."""
        answer: dict[str, Any] = self.post(at, method, params).json()
        return answer

    def send(self, at: int, message: dict[str, Any]) -> None:
        """Send what has no answer."""
        sent = self.http.post(self.urls[at], json={"jsonrpc": "2.0", **message}, headers=self.headers)
        assert sent.status_code == 202, sent.text

    def look_for_questions(self, id_: str) -> None:
        """Look twice, at the process where the task was made, for a task that asks something."""
        for _ in range(2):
            while self.ask(0, "tasks/get", {"taskId": id_})["result"]["status"] != "input_required":
                pass

    def begin(self, at: int, **meta: Any) -> str:
        """Have a task made, and return its id."""
        params = {"name": "publish", "arguments": {}, "task": {}, "_meta": meta}
        return str(self.ask(at, "tools/call", params)["result"]["task"]["taskId"])

    @contextmanager
    def listening(self, at: int) -> Iterator[Queue[dict[str, Any]]]:
        """Open a stream that belongs to no request, and return what is said there."""
        said: Queue[dict[str, Any]] = Queue()
        is_open = threading.Event()

        def listen() -> None:
            with self.http.stream("GET", self.urls[at], headers=self.headers) as answer:
                streams.append(answer)
                try:
                    for line in answer.iter_lines():
                        is_open.set()
                        if line.startswith("data:") and (text := line[5:].strip()):
                            said.put(json.loads(text))
                except httpx2.HTTPError:
                    assert is_over.is_set()

        streams: list[httpx2.Response] = []
        is_over = threading.Event()
        thread = threading.Thread(target=listen)
        thread.start()
        try:
            assert is_open.wait(PATIENCE)
            yield said
        finally:
            is_over.set()
            self.http.delete(self.urls[0], headers=self.headers)  # which ends the stream
            thread.join()

    def stream(self, at: int, method: str, params: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Send a request, and return the messages of its answer."""
        message = self.message(method, params)
        with self.http.stream("POST", self.urls[at], json=message, headers=self.headers) as answer:
            for line in answer.iter_lines():
                if line.startswith("data:") and (text := line[5:].strip()):
                    yield json.loads(text)


@pytest.fixture(params=["sqlite", "redis"])
def session(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    """A session at three processes."""
    engines = [make_engine(request.param, tmp_path) for _ in range(3)]
    with (
        in_thread(make_server(engines[0]).asgi()) as first,
        in_thread(make_server(engines[1]).asgi()) as second,
        in_thread(make_server(engines[2]).asgi()) as third,
        httpx2.Client(timeout=PATIENCE) as http,
    ):
        yield Session(http, [first, second, third])
    for engine in engines:
        close(engine)


def accepted(question: dict[str, Any], id_: str) -> dict[str, Any]:
    """Return the answer to what a task asks."""
    assert question["method"] == "elicitation/create"
    assert question["params"]["message"] == "Publish?"
    assert question["params"]["_meta"][RELATED] == {"taskId": id_}
    return {"id": question["id"], "result": {"action": "accept", "content": {"value": True}}}


def test_a_result_is_waited_for_at_another_process_and_what_is_asked_there_answered_at_a_third(
    session: Session,
) -> None:
    id_ = session.begin(0)
    assert session.ask(1, "tasks/get", {"taskId": id_})["result"]["taskId"] == id_
    waiting = session.stream(1, "tasks/result", {"taskId": id_})
    session.send(2, accepted(next(waiting), id_))
    result = next(waiting)["result"]
    assert result["content"][0]["text"] == "published: True"
    assert result["_meta"][RELATED] == {"taskId": id_}
    assert session.ask(2, "tasks/result", {"taskId": id_})["result"] == result


def test_what_belongs_to_no_request_is_said_where_the_client_listens(session: Session) -> None:
    with session.listening(1) as said:
        id_ = session.begin(0, progressToken="p")
        session.look_for_questions(id_)
        told = [said.get(timeout=PATIENCE) for _ in range(3)]
        kinds = [message["method"] for message in told]
        assert sorted(kinds) == ["elicitation/create", "notifications/progress", "notifications/tasks/status"]
        by_kind = dict(zip(kinds, (message["params"] for message in told), strict=True))
        assert by_kind["notifications/progress"]["progressToken"] == "p"
        assert by_kind["notifications/progress"]["_meta"][RELATED] == {"taskId": id_}
        assert by_kind["notifications/tasks/status"]["status"] == "input_required"
        question = told[kinds.index("elicitation/create")]
        session.send(2, accepted(question, id_))
        over: dict[str, Any] = {}
        while over.get("status") != "completed":
            over = said.get(timeout=PATIENCE)["params"]
        assert over == session.ask(2, "tasks/get", {"taskId": id_})["result"]


@pytest.mark.parametrize("at", [0, 1])
def test_a_client_that_begins_to_listen_is_asked_what_is_open(session: Session, at: int) -> None:
    id_ = session.begin(0)
    session.look_for_questions(id_)
    with session.listening(at) as said:
        while (question := said.get(timeout=PATIENCE))["method"] != "elicitation/create":
            pass
        session.send(2, accepted(question, id_))
        while said.get(timeout=PATIENCE)["params"].get("status") != "completed":
            pass
        result = session.ask(2, "tasks/result", {"taskId": id_})["result"]
        assert result["content"][0]["text"] == "published: True"


def test_cancelling_at_another_process(session: Session) -> None:
    with session.listening(1) as said:
        id_ = session.begin(0)
        assert session.ask(1, "tasks/cancel", {"taskId": id_})["result"]["status"] == "cancelled"
        while said.get(timeout=PATIENCE)["params"].get("status") != "cancelled":
            pass
        assert session.ask(2, "tasks/get", {"taskId": id_})["result"]["status"] == "cancelled"
        assert session.ask(0, "tasks/cancel", {"taskId": id_})["error"]["code"] == -32602
