"""What is known of one task: the record from which both generations of the protocol are answered."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Literal

from pydantic_core import from_json, to_json

from ..protocol.types import Json
from ..state.principal import Principal

FORMAT = 1
"""The version of the record format. Workers skip records of another version."""

Status = Literal["working", "input_required", "completed", "cancelled", "failed"]

ENDS = frozenset({"completed", "cancelled", "failed"})
"""What a task is when it is over; then nothing of it changes any more."""

_FEWEST, _MOST = 0.5, 30.0
"""Seconds between two looks that a client is advised to take, of a new task and of an old one."""


def _nothing() -> Json:
    return {}


@dataclass
class Run:
    """A run of the function that has begun.

    Attributes:
        fence: The fence under which it was taken.
        until: When its time is over, by the clock of the queue.
        begun: When it began, by that clock.
    """

    fence: int
    until: float
    begun: float


@dataclass
class Record:
    """One task.

    Attributes:
        id: Its id.
        tool: The tool.
        arguments: What it is called with, as the client sent it.
        owner: Whose it is, as `owner_of` has it; empty for whoever knows the id.
        needs: The scopes that the call needed.
        principal: Who has asked for it: id, scopes, client, issuer, subject, claims; never a token.
        call_id: The `ctx.idempotency_key` of all its runs.
        revision: The revision of the request.
        info: What the client says of itself.
        capabilities: What it can do.
        meta: The `_meta` of the request, as far as the function may look at it.
        headers: The headers of the request that fill its parameters.
        created: When it was made, in Unix seconds.
        updated: When it was changed last.
        keep: Seconds for which its end is kept.
        left: Seconds for which its function may still work.
        rerun: Whether its function may be run again where a process has ended.
        attempts: How many runs may be begun that end with their process.
        status: What it is.
        message: A sentence on that.
        progress: How far it is: what `notifications/progress` says of it, without the token.
        runs: How many runs have been begun that have ended with their process.
        run: The run that has begun and has not ended; None while it waits.
        asked: The open questions by the keys that clients know them by: name, digest and request of each.
        answered: The answers by the names of the questions: digest and result.
        before: Answers that came before it was made: digest and result.
        unanswered: Names of questions to which nobody has answered in time.
        refused: Why the client will not answer, by the names of questions.
        tries: How many times a question was asked again, by name.
        once: What has been done once, and what came of it.
        until: When the time for what a page is for is over, by the names of questions.
        mark: What tells the latest change by a run from all others.
        result: What it has come to, where it is completed.
        error: The JSON-RPC error, where it has failed.
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
        """Whether it has ended."""
        return self.status in ENDS

    def poll_interval(self, load: float = 1.0) -> int:
        """Return the milliseconds between two looks that a client is advised to take: more of them with its age.

        Args:
            load: By how much longer, as many look.
        """
        age = max(self.updated, time.time()) - self.created
        return round(1000 * min(_MOST, max(_FEWEST, age / 10) * load))

    def end(self, status: Literal["completed", "cancelled", "failed"], now: float) -> None:
        """Have it over: what only a run needs is kept no longer."""
        self.status = status
        self.run = None
        self.arguments, self.meta, self.headers = {}, {}, {}
        self.asked, self.answered, self.once, self.before = {}, {}, {}, []
        self.unanswered, self.refused, self.tries, self.until = [], {}, {}, {}
        self.updated = max(self.updated, now)

    def fail(self, error: Json, now: float) -> None:
        """Have it failed, with a JSON-RPC error."""
        self.end("failed", now)
        self.error = error
        self.message = error["message"]

    def dump(self) -> bytes:
        """Return it as JSON."""
        return to_json(vars(self))

    @classmethod
    def load(cls, data: bytes) -> Record:
        """Return what `dump` has written."""
        try:
            members: Json = from_json(data, cache_strings="none")
        except ValueError:  # what was just not too deep for one request lies deeper here
            members = json.loads(data)
        if members["run"] is not None:
            members["run"] = Run(**members["run"])
        return cls(**members)

    def copy(self) -> Record:
        """Return another one that says the same."""
        return self.load(self.dump())


def written(principal: Principal) -> Json:
    """Return what is kept of who asks."""
    return {
        "id": principal.id,
        "scopes": sorted(principal.scopes),
        "client_id": principal.client_id,
        "issuer": principal.issuer,
        "subject": principal.subject,
        "claims": dict(principal.claims),
    }


def read(principal: Json) -> Principal:
    """Return who has asked, as `written` has kept it."""
    return Principal(
        principal["id"],
        principal["scopes"],
        client_id=principal["client_id"],
        issuer=principal["issuer"],
        subject=principal["subject"],
        claims=principal["claims"],
    )
