"""What is answered in the place of a process of the server: while there is none, and where it has gone away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..._utils.exceptions import INTERNAL_ERROR, METHOD_NOT_FOUND
from ...protocol.jsonrpc import Json, is_object
from ...protocol.revisions import ALL, SERVER_INFO
from .conversation import DECLARED, Conversation, is_stateless, params_of, widened
from .lists import MEMBERS, Lists

DONE: Final = frozenset({"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
"""Methods with an empty result."""

_UNKNOWN: Final = {"name": "server", "version": "0"}
"""Server name in responses before the server has run."""


class Answers:
    """Makes answers that no process has given, and finishes those that one has.

    Attributes:
        lists: What has been listed last.
    """

    def __init__(self) -> None:
        self.lists = Lists()
        self._opened: Json = {}
        self._discovered: Json = {}

    def finish(self, request: Json, answer: Json) -> Json:
        """Return the answer of a process as it goes to the host.

        Lists and what is discovered are stale at once. Kinds of which the process has none are empty, as they are
        declared all the same.
        """
        method = str(request.get("method"))
        error: object = answer.get("error")
        if is_object(error) and error.get("code") == METHOD_NOT_FOUND:
            if method in MEMBERS:
                return _result(request, {MEMBERS[method]: []})
            if method in DONE:
                return _result(request, {})
        result: object = answer.get("result")
        if not is_object(result):
            return answer
        if method == "initialize":
            self._opened = result = {**result, "capabilities": widened(result.get("capabilities"))}
        elif method == "server/discover":
            self._discovered = result = {**result, "capabilities": widened(result.get("capabilities"))}
        elif method not in MEMBERS:
            return answer
        elif "cursor" not in params_of(request) and "nextCursor" not in result:
            self.lists.learn(method, result)
        return _result(request, result)

    def instead(self, request: Json, problem: str, conversation: Conversation) -> Json:
        """Return the answer to a request that no process can be asked, because of a problem with the code.

        Args:
            request: The request.
            problem: What the problem is: file, line and error.
            conversation: What has been agreed upon.
        """
        method = str(request.get("method"))
        if method in MEMBERS:
            return _result(request, self.lists.result(method))
        if method in DONE:
            return _result(request, {})
        if method == "initialize":
            revision = conversation.revision or conversation.wanted_revision
            opened = self._opened or {"capabilities": DECLARED, "serverInfo": _UNKNOWN}
            return _result(request, {**opened, "protocolVersion": revision})
        if method == "server/discover":
            unknown = {
                "supportedVersions": list(ALL),
                "capabilities": DECLARED,
                "_meta": {SERVER_INFO: _UNKNOWN},
            }
            return _result(request, self._discovered or unknown)
        return failed(request, problem)


def failed(request: Json, problem: str) -> Json:
    """Return the answer to a request that has failed: for a call of a tool a result, which a model reads."""
    if request.get("method") == "tools/call" and "task" not in params_of(request):
        return _result(request, {"content": [{"type": "text", "text": problem}], "isError": True})
    return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": INTERNAL_ERROR, "message": problem}}


def _result(request: Json, result: Mapping[str, object]) -> Json:
    finished = dict(result)
    if is_stateless(request):
        finished = {"resultType": "complete", **finished}
        if request["method"] in MEMBERS or request["method"] == "server/discover":
            finished = {"cacheScope": "private", **finished, "ttlMs": 0}
    return {"jsonrpc": "2.0", "id": request["id"], "result": finished}
