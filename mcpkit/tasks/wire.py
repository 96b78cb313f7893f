"""JSON forms of a task in each generation of the protocol."""

from __future__ import annotations

from datetime import datetime, timezone

from ..components.component import optional
from ..protocol.types import Json
from .record import Record

_MOST_TOLD = 500
"""Maximum characters of a tool's error message in the status of its task."""


def handle(record: Record, load: float = 1.0) -> Json:
    """Return the `Task` of 2026-07-28, with which every result about a task begins (ext-tasks, "Tasks").

    Args:
        record: The task.
        load: Factor of the recommended time between two polls.
    """
    return optional(
        taskId=record.id,
        status=record.status,
        statusMessage=record.message,
        createdAt=moment(record.created),
        lastUpdatedAt=moment(record.updated),
    ) | {"ttlMs": time_to_live(record), "pollIntervalMs": record.poll_interval(load)}


def detailed(record: Record, load: float = 1.0) -> Json:
    """Return the `DetailedTask` of 2026-07-28: with the open requests, the result, or the error."""
    task = handle(record, load)
    if record.status == "input_required":
        task["inputRequests"] = {key: each["request"] for key, each in record.asked.items()}
    elif record.status == "completed":
        task["result"] = record.result
    elif record.status == "failed":
        task["error"] = record.error
    return task


def task_2025(record: Record, load: float = 1.0) -> Json:
    """Return the `Task` of 2025-11-25, in which a task with an error result of its tool is failed.

    Args:
        record: The task.
        load: See `handle`.
    """
    task = handle(record, load)
    task["ttl"], task["pollInterval"] = task.pop("ttlMs"), task.pop("pollIntervalMs")
    result = record.result or {}
    if result.get("isError"):
        task["status"] = "failed"
        texts = [block["text"] for block in result.get("content", ()) if block.get("type") == "text"]
        if texts:
            task["statusMessage"] = texts[0][:_MOST_TOLD]
    return task


def related(id_: str) -> Json:
    """Return the `_meta` of a message of 2025-11-25 that belongs to a task and does not name it otherwise."""
    return {"io.modelcontextprotocol/related-task": {"taskId": id_}}


def time_to_live(record: Record) -> int | None:
    """Return the milliseconds from its creation for which a task is kept; None while it is open."""
    if not record.is_over:
        return None
    return round(1000 * (record.updated - record.created + record.keep))


def moment(seconds: float) -> str:
    """Return a time in Unix seconds in the protocol's format."""
    text = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
