"""Record of a task, which serves both generations of the protocol."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Literal

from pydantic_core import from_json, to_json

from ..identity.principal import Principal
from ..protocol.types import Json

FORMAT = 1
"""The version of the record format. Workers skip records of another version."""

Status = Literal["working", "input_required", "completed", "cancelled", "failed"]

ENDS = frozenset({"completed", "cancelled", "failed"})
"""Final states of a task."""

_FEWEST, _MOST = 0.5, 30.0
"""Recommended seconds between two polls, for a new task and for an old one."""


def _nothing() -> Json:
    return {}


@dataclass
class Run:
    """A run of the function that has started.

    Attributes:
        fence: Fencing token of its lease.
        until: Time at which it times out, by the clock of the queue.
        begun: Time at which it started, by that clock.
    """

    fence: int
    until: float
    begun: float


@dataclass
class Record:
    """A task.

    Attributes:
        id: Id of the task.
        tool: Name of the tool.
        arguments: Arguments of the call, as the client sent them.
        owner: Digest of the owner; see `owner_of`. Empty for an anonymous client.
        needs: Scopes that the call needed.
        principal: Principal that created it: id, scopes, client, issuer, subject, claims; never a token.
        call_id: `ctx.idempotency_key` of all its runs.
        revision: Protocol version of the request.
        info: `clientInfo` of the client.
        capabilities: Capabilities of the client.
        meta: `_meta` of the request, as far as the function may read it.
        headers: Headers of the request that fill parameters of the function.
        created: Time of creation, in Unix seconds.
        updated: Time of the last change.
        keep: Seconds for which the ended task is kept.
        left: Seconds that remain until the function times out.
        rerun: Whether the function may run again after its process has ended.
        attempts: Maximum number of runs that end with their process.
        status: Status of the task.
        message: Status message.
        progress: Params of the last `notifications/progress`, without the token.
        runs: Number of runs that have ended with their process.
        run: The current run; None while the task waits.
        asked: Open requests to the client by key: name, digest and request of each.
        answered: Responses by the names of the requests: digest and result.
        before: Responses from before the task was created: digest and result.
        unanswered: Names of requests that timed out.
        refused: Errors of the client, by the names of the requests.
        tries: Number of repetitions of a request, by name.
        once: Results of `ctx.once`, by key.
        until: Deadlines of URL elicitations, by the names of the requests.
        mark: Random mark of the latest change by a run.
        result: Result of a completed task.
        error: JSON-RPC error of a failed task.
    """

    id: str
    tool: str
    arguments: Json
    owner: str
    needs: list[str]
    principal: Json
    call_id: str
    revision: str
    info: Json
    capabilities: Json
    meta: Json
    headers: dict[str, str]
    created: float
    updated: float
    keep: float
    left: float
    rerun: Literal["safe", "never"]
    attempts: int
    status: Status = "working"
    message: str | None = None
    progress: Json | None = None
    runs: int = 0
    run: Run | None = None
    asked: dict[str, Json] = field(default_factory=dict[str, Json])
    answered: dict[str, Json] = field(default_factory=dict[str, Json])
    before: list[Json] = field(default_factory=list[Json])
    unanswered: list[str] = field(default_factory=list[str])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    tries: dict[str, int] = field(default_factory=dict[str, int])
    once: Json = field(default_factory=_nothing)
    until: dict[str, float] = field(default_factory=dict[str, float])
    mark: str = ""
    result: Json | None = None
    error: Json | None = None

    @property
    def is_over(self) -> bool:
        """True if the task has ended."""
        return self.status in ENDS

    def poll_interval(self, load: float = 1.0) -> int:
        """Return the recommended milliseconds between two polls, which grow with the age of the task.

        Args:
            load: Factor for many polls.
        """
        age = max(self.updated, time.time()) - self.created
        return round(1000 * min(_MOST, max(_FEWEST, age / 10) * load))

    def end(self, status: Literal["completed", "cancelled", "failed"], now: float) -> None:
        """End the task, and drop data that only a run needs."""
        self.status = status
        self.run = None
        self.arguments, self.meta, self.headers = {}, {}, {}
        self.asked, self.answered, self.once, self.before = {}, {}, {}, []
        self.unanswered, self.refused, self.tries, self.until = [], {}, {}, {}
        self.updated = max(self.updated, now)

    def fail(self, error: Json, now: float) -> None:
        """End the task as failed, with a JSON-RPC error."""
        self.end("failed", now)
        self.error = error
        self.message = error["message"]

    def dump(self) -> bytes:
        """Return the record as JSON."""
        return to_json(vars(self))

    @classmethod
    def load(cls, data: bytes) -> Record:
        """Return the record of `dump`."""
        try:
            members: Json = from_json(data, cache_strings="none")
        except ValueError:  # what was just not too deep for one request lies deeper here
            members = json.loads(data)
        if members["run"] is not None:
            members["run"] = Run(**members["run"])
        return cls(**members)

    def copy(self) -> Record:
        """Return a deep copy."""
        return self.load(self.dump())


def written(principal: Principal) -> Json:
    """Return the JSON form of a principal."""
    return {
        "id": principal.id,
        "scopes": sorted(principal.scopes),
        "client_id": principal.client_id,
        "issuer": principal.issuer,
        "subject": principal.subject,
        "claims": dict(principal.claims),
    }


def read(principal: Json) -> Principal:
    """Return the principal of `written`."""
    return Principal(
        principal["id"],
        principal["scopes"],
        client_id=principal["client_id"],
        issuer=principal["issuer"],
        subject=principal["subject"],
        claims=principal["claims"],
    )
