"""A host that starts the server of `lasting_server.py` over pipes, has a task made, and asks for it until it has ended.

python polling_host.py FOLDER     the id of the task is in FOLDER/id; where that is there already, no other is made
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

from tests.helpers.stdio.host import META

FOLDER = Path(sys.argv[1])
SERVER = Path(__file__).with_name("lasting_server.py")
KNOWS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


def main() -> None:
    with subprocess.Popen(
        [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        ids = count(1)

        def ask(method: str, **params: Any) -> dict[str, Any]:
            params["_meta"] = META | {"io.modelcontextprotocol/clientCapabilities": KNOWS}
            message = {"jsonrpc": "2.0", "id": next(ids), "method": method, "params": params}
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            answer: dict[str, Any] = json.loads(process.stdout.readline())
            return answer.get("result", {"status": "unknown", **answer})

        id_ = FOLDER / "id"
        if not id_.exists():
            task = ask("tools/call", name="bake", arguments={"cake": "a cake"})
            id_.write_text(task["taskId"])
        while (task := ask("tasks/get", taskId=id_.read_text()))["status"] == "working":
            time.sleep(0.05)
        (FOLDER / "end").write_text(json.dumps(task))
        assert process.stdin is not None
        process.stdin.close()


if __name__ == "__main__":
    main()
