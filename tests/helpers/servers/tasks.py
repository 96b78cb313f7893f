"""Server over stdio with stored tasks, and a host that starts it.

python tasks.py                the server; its store is in `$FOLDER`, and its task ends when there is a file `go`
python tasks.py poll FOLDER    a host that starts the server, creates a task (or reads its id), and polls it
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

from mcpkit import Context, Server, Task, TaskOptions
from mcpkit.storage import Sqlite
from tests.helpers.process_client import STATELESS_META

SUPPORTS_TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


def serve(folder: Path) -> None:
    server = Server(
        "lasting",
        secret_key="a secret of sixteen bytes",
        storage=Sqlite(folder / "tasks.db"),
        tasks=TaskOptions(lease=1.0),
    )

    def record(line: str) -> None:
        with (folder / "ledger").open("a") as ledger:
            ledger.write(line + "\n")

    def heat() -> str:
        record("heated")
        return "well done"

    @server.tool(task=Task(rerun="safe"))
    async def bake(cake: str, ctx: Context) -> str:
        heated = await ctx.once("heat", heat)
        record(f"begun {ctx.task.attempt}")
        while not (folder / "go").exists():
            await asyncio.sleep(0.01)
        return f"{cake}, {heated}"

    server.run()


def poll(folder: Path) -> None:
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout, ids = process.stdin, process.stdout, count(1)

        def request(method: str, **params: Any) -> dict[str, Any]:
            params["_meta"] = STATELESS_META | {"io.modelcontextprotocol/clientCapabilities": SUPPORTS_TASKS}
            message = {"jsonrpc": "2.0", "id": next(ids), "method": method, "params": params}
            stdin.write(json.dumps(message).encode() + b"\n")
            stdin.flush()
            response: dict[str, Any] = json.loads(stdout.readline())
            return response.get("result", {"status": "unknown", **response})

        id_ = folder / "id"
        if not id_.exists():
            task = request("tools/call", name="bake", arguments={"cake": "a cake"})
            id_.write_text(task["taskId"])
        while (task := request("tasks/get", taskId=id_.read_text()))["status"] == "working":
            time.sleep(0.05)
        (folder / "end").write_text(json.dumps(task))
        stdin.close()


if __name__ == "__main__":
    poll(Path(sys.argv[2])) if len(sys.argv) > 1 else serve(Path(os.environ["FOLDER"]))
