"""Task records: their form and ids, the storage that all processes share, and the writer of one run."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from pydantic_core import from_json, to_json

from .._utils.exceptions import INTERNAL_ERROR, BusyError, MalformedError
from ..components.component import optional
from ..components.tool import digest_of
from ..identity.principals_and_scopes import Principal
from ..options import TaskOptions
from ..protocol.jsonrpc import Json, is_object
from ..storage.base import PubSub, QueueStats
from ..storage.encryption_keys import Keys
from ..storage.jobs_and_heartbeats import Added, Job, Message, Queue

if TYPE_CHECKING:
    from ..components.tool import Tool

logger = logging.getLogger(__name__)

# Version of the record format. Workers skip records of another version.
FORMAT = 2

# Maximum bytes of a record: arguments, responses, results of `ctx.once`, and the result together.
MAX_RECORD = 8 * 1024 * 1024

_FINAL = frozenset({"completed", "cancelled", "failed"})

# Recommended seconds between two polls, for a new task and for an old one
_MIN_POLL_INTERVAL, _MAX_POLL_INTERVAL = 0.5, 30.0

# Seconds between attempts of `TaskWriter.write`
_RETRY_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)

# Number of times that a change of a client is tried again after concurrent changes
_MAX_TRIES = 50

# Seconds for which a measurement waits for the storage
_STATISTICS_TIMEOUT = 2.0

_PURPOSE = "task record"
_UNENCRYPTED = b"\0"


class TooLargeError(ValueError):
    """A record would exceed the maximum size."""


class UnreadableTaskError(Exception):
    """A record cannot be decrypted with any of the secrets, or is of another version of mcpkit."""


class LostError(Exception):
    """The task has another run, or has ended, so this run must not write."""


# Records


@dataclass
class TaskRecord:
    """A task, in a form that serves both generations of the protocol. The names of its fields are those in the storage.

    Attributes:
        id: Id of the task.
        tool: Name of the tool.
        arguments: Arguments of the call, as the client sent them.
        owner: Digest of the owner; see `owner_of`. Empty for an anonymous client.
        scopes: Scopes that the call needed.
        principal: Principal that created it, without its token.
        call_id: `ctx.idempotency_key` of all its runs.
        revision: Protocol version of the request.
        client_info: `clientInfo` of the client.
        capabilities: Capabilities of the client.
        meta: `_meta` of the request, as far as the function may read it.
        headers: Headers of the request that fill parameters of the function.
        created: Time of creation, in Unix seconds.
        updated: Time of the last change.
        result_ttl: Seconds for which the ended task is stored.
        time_left: Seconds that remain until the function times out.
        rerun: Whether the function may run again after its process has ended.
        attempts: Maximum number of runs that end with their process.
        earlier_responses: Responses from before the task was created: digest of the request, and result.
        status: Status of the task.
        message: Status message.
        progress: Params of the last `notifications/progress`, without the token.
        failed_runs: Number of runs that have ended with their process.
        run_deadline: Time at which the current run times out, by the clock of the storage; None while the task waits.
        requests: Open requests to the client by key: name, digest and request of each.
        responses: Responses by the names of the requests: digest and result.
        timed_out: Names of requests that timed out.
        errors: Error messages of the client, by the names of the requests.
        repeats: Number of repetitions of a request, by name.
        once: Results of `ctx.once`, by key.
        page_deadlines: Deadlines of URL elicitations, by the names of the requests.
        write_id: Random id of the latest write of a run.
        result: Result of a completed task.
        error: JSON-RPC error of a failed task.
    """

    id: str
    tool: str
    arguments: Json
    owner: str
    scopes: list[str]
    principal: Principal
    call_id: str
    revision: str
    client_info: Json
    capabilities: Json
    meta: Json
    headers: dict[str, str]
    created: float
    updated: float
    result_ttl: float
    time_left: float
    rerun: Literal["safe", "never"]
    attempts: int
    earlier_responses: list[Json] = field(default_factory=list[Json])
    status: Literal["working", "input_required", "completed", "cancelled", "failed"] = "working"
    message: str | None = None
    progress: Json | None = None
    failed_runs: int = 0
    run_deadline: float | None = None
    requests: dict[str, Json] = field(default_factory=dict[str, Json])
    responses: dict[str, Json] = field(default_factory=dict[str, Json])
    timed_out: list[str] = field(default_factory=list[str])
    errors: dict[str, str] = field(default_factory=dict[str, str])
    repeats: dict[str, int] = field(default_factory=dict[str, int])
    once: Json = field(default_factory=dict[str, Any])
    page_deadlines: dict[str, float] = field(default_factory=dict[str, float])
    write_id: str = ""
    result: Json | None = None
    error: Json | None = None

    @property
    def is_over(self) -> bool:
        """True if the task has ended."""
        return self.status in _FINAL

    def end(self, status: Literal["completed", "cancelled", "failed"]) -> None:
        """End the task, and drop data that only a run needs."""
        self.status = status
        self.run_deadline = None
        self.arguments, self.meta, self.headers = {}, {}, {}
        self.requests, self.responses, self.once, self.earlier_responses = {}, {}, {}, []
        self.timed_out, self.errors, self.repeats, self.page_deadlines = [], {}, {}, {}

    def fail(self, error: Json) -> None:
        """End the task as failed, with a JSON-RPC error."""
        self.end("failed")
        self.error = error
        self.message = error["message"]

    def has_response(self, name: str) -> bool:
        """Return True if the client has responded to a request, with a result or an error."""
        return name in self.responses or name in self.errors

    def to_task(self) -> Json:
        """Return the `Task` of 2026-07-28, with which every result about a task begins (ext-tasks, "Tasks").

        The recommended time between two polls grows with the age of the task.
        """
        age = max(self.updated, time.time()) - self.created
        interval = min(_MAX_POLL_INTERVAL, max(_MIN_POLL_INTERVAL, age / 10))
        lifetime = self.updated - self.created + self.result_ttl
        return optional(
            taskId=self.id,
            status=self.status,
            statusMessage=self.message,
            createdAt=_timestamp(self.created),
            lastUpdatedAt=_timestamp(self.updated),
        ) | {
            "ttlMs": round(1000 * lifetime) if self.is_over else None,
            "pollIntervalMs": round(1000 * interval),
        }

    def to_detailed_task(self) -> Json:
        """Return the `DetailedTask` of 2026-07-28: with the open requests, the result, or the error."""
        task = self.to_task()
        if self.status == "input_required":
            task["inputRequests"] = {key: each["request"] for key, each in self.requests.items()}
        elif self.status == "completed":
            task["result"] = self.result
        elif self.status == "failed":
            task["error"] = self.error
        return task

    def dump(self) -> bytes:
        """Return the record as JSON."""
        who = self.principal
        principal = {**vars(who), "scopes": sorted(who.scopes), "claims": dict(who.claims)}
        return to_json({**vars(self), "principal": principal})

    @classmethod
    def load(cls, data: bytes) -> TaskRecord:
        """Return the record of `dump`."""
        try:
            fields: Json = from_json(data, cache_strings="none")
        except ValueError:  # arguments of the maximum depth are deeper here than in their request
            fields = json.loads(data)
        fields["principal"] = Principal(**fields["principal"])
        return cls(**fields)


def _timestamp(seconds: float) -> str:
    """Return a time in Unix seconds in the protocol's format."""
    text = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


# Ids: unguessable, and signed for their owner, so that those of other owners are refused without the storage

_ID_LENGTH = 64
_ID_PURPOSE = "task id 1"
_RANDOM_BYTES = 16


def new_task_id(keys: Keys, owner: str, request: object = None) -> str:
    """Return an id for a task of an owner, with 64 characters.

    Args:
        keys: Keys for the signature.
        owner: Owner of the task; empty for an anonymous client.
        request: JSON value that identifies the request: an equal one gets the same id. None for a random id.
    """
    if request is None:
        random = os.urandom(_RANDOM_BYTES)
    else:
        text = json.dumps(request, sort_keys=True, separators=(",", ":"))
        random = keys.sign("task idempotency 1", hashlib.sha256(text.encode()).digest())[:_RANDOM_BYTES]
    # No id begins with a hyphen, as options of commands do.
    random = bytes([random[0] & 0x7F]) + random[1:]
    return urlsafe_b64encode(random + keys.sign(_ID_PURPOSE, random + owner.encode())).decode()


def is_task_id(keys: Keys, owner: str, id_: str) -> bool:
    """Return True if an id was created for this owner, under any of the secrets."""
    if len(id_) != _ID_LENGTH or not id_.isascii():
        return False
    try:
        packed = urlsafe_b64decode(id_)
    except ValueError:
        return False
    random, mac = packed[:_RANDOM_BYTES], packed[_RANDOM_BYTES:]
    # Decoding skips characters outside of the alphabet; encoding again shows that there were none.
    is_canonical = urlsafe_b64encode(packed).decode() == id_
    return is_canonical and keys.verify(_ID_PURPOSE, random + owner.encode(), mac)


# Storage


@runtime_checkable
class TaskStorage(PubSub, Queue, Protocol):
    """Members of a storage that tasks need."""

    @property
    def is_persistent(self) -> bool:
        """True if stored data outlives the process."""
        ...


class StoredTask(NamedTuple):
    """A record with its version.

    Attributes:
        record: The record.
        version: Its version.
        fence: Fencing token of its latest lease.
    """

    record: TaskRecord
    version: str
    fence: int


class TaskStore:
    """The task records of one server.

    In a storage that outlives the process, each record is encrypted for its key. Each change publishes a JSON object
    with `id` and `status` to the topic, in the same transaction.

    Args:
        storage: Storage of the records.
        keys: Keys for the encryption.
        options: Limits of open tasks.

    Attributes:
        storage: Storage of the records.
        server: Name of the server in the names of queues.
        topic: Topic of changes.

    Raises:
        TypeError: The storage lacks methods that tasks need.
        ImportError: Tasks outlive the process, and the package for their encryption is not installed.
    """

    def __init__(self, storage: object, keys: Keys, options: TaskOptions) -> None:
        if not isinstance(storage, TaskStorage):
            raise TypeError(
                f"tasks need an engine with all methods of mcpkit.storage.Queue, got {storage!r}. "
                "Implement them, or use Memory(), Sqlite(...) or Redis(...)"
            )
        if storage.is_persistent:
            from ..storage.encryption_keys import aes_gcm

            try:
                aes_gcm()
            except ImportError as error:
                raise ImportError(f"tasks in {type(storage).__name__}(...) are encrypted: {error}") from None
        self.storage: TaskStorage = storage
        # The name of a queue begins with that of its server, up to the first slash.
        self.server = keys.name.replace("%", "%25").replace("/", "%2F")
        self.topic = f"{keys.name}/tasks"
        self._keys = keys
        self._options = options
        self._digests: WeakKeyDictionary[Tool, str] = WeakKeyDictionary()

    def queue_name(self, tool: Tool) -> str:
        """Return the name of the queue for this version of a tool."""
        digest = self._digests.get(tool)
        if digest is None:
            digest = self._digests[tool] = digest_of(tool.schemas("2026-07-28")[0])
        return f"{self.server}/task/{FORMAT}/{tool.name}/{digest}"

    async def add(self, record: TaskRecord, tool: Tool, owner: str) -> Added:
        """Add a task, ready for its first run.

        Args:
            record: The task.
            tool: Its tool.
            owner: Owner for the limit of open tasks; empty for no owner, then that limit does not apply.

        Raises:
            TooLargeError: Its arguments are too large.
            OSError: The storage does not answer.
        """
        key = self._key(record.id)
        return await self.storage.add(
            key,
            self._encode(key, record),
            queue=self.queue_name(tool),
            owner=owner,
            max_open=self._options.max_open,
            max_open_per_owner=self._options.max_open_per_owner if owner else self._options.max_open,
        )

    async def get(self, id_: str) -> StoredTask | None:
        """Return a task; None if it does not exist.

        Raises:
            UnreadableTaskError: It cannot be read.
            OSError: The storage does not answer.
        """
        job = await self.storage.get_job(self._key(id_))
        return None if job is None else self.decode(job)

    async def change(
        self, task: StoredTask, record: TaskRecord, *, fence: int | None = None, due: float | None = None
    ) -> StoredTask | None:
        """Replace a record, unless another caller has changed it since it was read.

        All processes are notified of changes that clients can see.

        Args:
            task: The task that was read.
            record: The new record.
            fence: Fencing token of the run; None for callers without a lease.
            due: Seconds until it may run; `math.inf` for not before the next change; None leaves that as it is.

        Returns:
            The new task; None if nothing was changed.

        Raises:
            TooLargeError: It would be too large.
            OSError: The storage does not answer.
        """
        key, message = self._key(record.id), None
        before = task.record
        # Except for the times, these are the fields that clients see.
        seen = attrgetter("status", "message", "progress", "requests")
        if seen(record) != seen(before):
            message = Message(self.topic, json.dumps({"id": record.id, "status": record.status}))
        version = await self.storage.change(
            key,
            self._encode(key, record),
            version=task.version,
            fence=fence,
            due=due,
            ttl=record.result_ttl if record.is_over else None,
            message=message,
        )
        return None if version is None else StoredTask(record, version, task.fence)

    # Changes by clients

    async def update(self, task: StoredTask, change: Callable[[TaskRecord], bool]) -> StoredTask:
        """Change a task, with retries after concurrent changes. A task that has ended stays unchanged.

        A task without open requests goes on: at once in another run, if no run waits for the responses.

        Args:
            task: The task.
            change: Changes a record; returns False if there is nothing to change.

        Raises:
            MalformedError: The task no longer exists.
            BusyError: The storage does not respond.
        """
        try:
            for _ in range(_MAX_TRIES):
                record = TaskRecord.load(task.record.dump())
                if task.record.is_over or not change(record):
                    return task
                due = None
                if not record.is_over and not record.requests:
                    record.status = "working"
                    due = 0.0 if record.run_deadline is None else None
                record.updated = max(record.updated, time.time())
                changed = await self.change(task, record, due=due)
                if changed is not None:
                    return changed
                if (latest := await self.get(record.id)) is None:
                    raise unknown_task(record.id)
                task = latest
        except (OSError, UnreadableTaskError) as error:
            raise unavailable(error) from None
        raise BusyError("The task was changed by other requests at the same time. Try again")

    async def respond(self, task: StoredTask, responses: Json) -> StoredTask:
        """Store the client's responses in a task, and return it afterwards. Unknown keys are ignored.

        Raises:
            MalformedError: A response is not an object.
            BusyError: The storage does not respond.
        """

        def store(record: TaskRecord) -> bool:
            known = [key for key in responses if key in record.requests]
            for key in known:
                if not is_object(responses[key]):
                    raise MalformedError(f"inputResponses.{key[:100]}: expected an object")
            for key in known:
                request = record.requests.pop(key)
                record.responses[request["name"]] = {"digest": request["digest"], "result": responses[key]}
            return bool(known)

        try:
            return await self.update(task, store)
        except TooLargeError as error:
            raise MalformedError(f"inputResponses: {error}") from None

    async def refuse(self, task: StoredTask, key: str, error: str) -> StoredTask:
        """Store the client's error for a request in a task, and return it afterwards.

        Raises:
            BusyError: The storage does not respond.
        """

        def store(record: TaskRecord) -> bool:
            request = record.requests.pop(key, None)
            if request is not None:
                record.errors[request["name"]] = error
            return request is not None

        return await self.update(task, store)

    # Lists

    async def list_owned(self, owner: str, after: str, limit: int) -> tuple[list[TaskRecord], str | None]:
        """Return a page of an owner's tasks, the newest first, without unreadable ones.

        Args:
            owner: The owner.
            after: Id of the last task of the previous page; empty for the first page.
            limit: Maximum number of tasks.

        Returns:
            The tasks, and the id after which there are more, or None.

        Raises:
            OSError: The storage does not answer.
        """
        jobs = await self.storage.list_jobs(
            owner, server=self.server, after=self._key(after) if after else "", limit=limit + 1
        )
        records: list[TaskRecord] = []
        for job in jobs[:limit]:
            with suppress(UnreadableTaskError):
                records.append(self.decode(job).record)
        return records, jobs[limit - 1].key.removeprefix(self._key("")) if len(jobs) > limit else None

    def waiting(self) -> Sequence[tuple[str, QueueStats]]:
        """Return statistics of the queues with the names of the tools, for meters; empty without an answer in time.

        It may be called in any thread, also in that of an event loop.
        """
        stats: list[QueueStats] = []

        def read() -> None:
            with suppress(OSError, asyncio.TimeoutError):
                queues = self.storage.list_queues(self.server)
                stats.extend(asyncio.run(asyncio.wait_for(queues, _STATISTICS_TIMEOUT)))

        thread = threading.Thread(target=read, name="mcpkit-measuring", daemon=True)
        thread.start()
        thread.join()
        return [(each.queue.split("/")[-2], each) for each in stats]  # see `queue_name`

    def decode(self, job: Job) -> StoredTask:
        """Return the task of a job.

        Raises:
            UnreadableTaskError: None of the secrets decrypts it, or it is of another version of mcpkit.
        """
        value = job.value
        if value[:1] == _UNENCRYPTED:
            data: bytes | None = value[1:]
        elif value[:1] != bytes([FORMAT]):
            raise UnreadableTaskError(
                f"the task {job.key!r} was written by another version of mcpkit. Run the same version in all processes"
            )
        else:
            data = self._keys.decrypt(_PURPOSE, value[1:], job.key.encode("utf-8", "surrogatepass"))
        if data is None:
            raise UnreadableTaskError(
                f"the task {job.key!r} cannot be decrypted with the given secrets. Add the secret that was "
                "used to write it, Server(secret_key=[new, old])"
            )
        return StoredTask(TaskRecord.load(data), job.version, job.fence)

    def _encode(self, key: str, record: TaskRecord) -> bytes:
        data = record.dump()
        if len(data) > MAX_RECORD:
            raise TooLargeError(
                f"the task record would have {len(data):,} bytes (arguments, answers and result together), "
                f"but the limit is {MAX_RECORD:,}. Store large data elsewhere and return a link to it"
            )
        if not self.storage.is_persistent:
            return _UNENCRYPTED + data
        return bytes([FORMAT]) + self._keys.encrypt(_PURPOSE, data, key.encode("utf-8", "surrogatepass"))

    def _key(self, id_: str) -> str:
        return f"{self.server}/task/{id_}"


def unknown_task(id_: str) -> MalformedError:
    """Return the error for a task that the client does not have."""
    return MalformedError(f"Unknown task: {id_[:100]}. It has expired, or it is not a task of this client")


def unavailable(error: Exception) -> BusyError:
    """Log why tasks are unavailable, and return the error for the client."""
    logger.error("the state of tasks is not available, so a client must repeat its request later: %s", error)
    return BusyError("The state of tasks is not available. Try again later")


# Writes of a run

# Changes a record. It may be called again, with a newer one.
Change = Callable[[TaskRecord], None]


class TaskWriter:
    """Writes the task record for one run, using compare-and-set with a fencing token. Writes are sequential.

    If a client changes the record meanwhile, it is read again, and the change is applied to the new one.

    Args:
        store: Storage of the record.
        task: The task, as it was taken from its queue.
        now: Time of the storage's clock at that moment.

    Attributes:
        fence: Fencing token of the run.
    """

    def __init__(self, store: TaskStore, task: StoredTask, now: float) -> None:
        self.fence = task.fence
        self._store = store
        self._task = task
        self._offset = now - time.monotonic()
        self._lock = asyncio.Lock()

    @property
    def record(self) -> TaskRecord:
        """The record that was read last. Do not change it."""
        return self._task.record

    def now(self) -> float:
        """Return the time of the storage's clock, in Unix seconds."""
        return self._offset + time.monotonic()

    async def write(self, change: Change, *, due: float | None = None, retry: bool = True) -> None:
        """Change the record. Other writes wait.

        Args:
            change: Changes it.
            due: See `TaskStore.change`.
            retry: Whether the write is tried again while the storage does not answer.

        Raises:
            LostError: The task has another run, or has ended.
            TooLargeError: The record would be too large.
            OSError: The storage does not answer, and `retry` is false.
        """
        tries, write_id = 0, os.urandom(8).hex()
        async with self._lock:
            while True:
                try:
                    return await self._write(change, write_id, due)
                except OSError as error:
                    if not retry:
                        raise
                    if tries == 0:
                        logger.error("the task record cannot be written; mcpkit tries again: %s", error)  # noqa: TRY400
                    await asyncio.sleep(_RETRY_PAUSES[min(tries, len(_RETRY_PAUSES) - 1)])
                    tries += 1

    async def _write(self, change: Change, write_id: str, due: float | None) -> None:
        """Apply a change with its own id, unless an earlier attempt without a reply has succeeded."""
        while self.record.write_id != write_id:
            record = TaskRecord.load(self.record.dump())
            change(record)
            record.write_id = write_id
            record.updated = max(record.updated, self.now())
            task = await self._store.change(self._task, record, fence=self.fence, due=due)
            if task is None:
                await self._read(write_id)
            else:
                self._task = task

    async def refresh(self) -> None:
        """Read the record again.

        Raises:
            LostError: The task has another run, or has ended.
            OSError: The storage does not answer.
        """
        async with self._lock:
            await self._read()

    async def _read(self, write_id: str = "") -> None:
        task = await self._store.get(self.record.id)
        if task is None or (
            task.record.write_id != write_id and (task.fence != self.fence or task.record.is_over)
        ):
            raise LostError
        self._task = task

    async def fail(self, message: str) -> None:
        """End the task as failed.

        Raises:
            LostError: The task has another run, or has ended.
        """
        await self.write(lambda record: record.fail({"code": INTERNAL_ERROR, "message": message}))
