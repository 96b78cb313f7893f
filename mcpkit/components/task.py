"""Options of tools that may run as tasks."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic_core import to_json

from .._utils.errors import RegistrationError
from .._utils.numbers import check_count, check_seconds
from ..protocol.types import Json, ToolAnnotations

Rerun = Literal["safe", "never"]


class Task(NamedTuple):
    """Options for calls that run as tasks: `@server.tool(task=Task(timeout=600))`.

    A task outlives its connection. A client that supports tasks gets a handle at once and fetches the result later.
    Other clients wait for the result in the response, unless `required` is true.

    Attributes:
        timeout: Seconds that one task may run in all, without the time that it waits for input of the user.
        result_ttl: Seconds for which the result is kept.
        rerun: Whether a task is run again when its process ended: `safe` runs the function from the start; `never`
            fails the task, and it is unknown whether its work was done. None is `safe` when the annotations declare
            the tool idempotent or read-only, else `never`.
        attempts: Number of runs that may end with their process before the task fails.
        required: Whether clients that do not support tasks are refused.

    Raises:
        RegistrationError: A value is out of range. The message has its name. Raised when the tool is registered.
    """

    timeout: float = 3600.0
    result_ttl: float = 86400.0
    rerun: Rerun | None = None
    attempts: int = 3
    required: bool = False

    def reruns(self, annotations: ToolAnnotations | None) -> Rerun:
        """Return whether a tool is run again when its process ended: `safe` or `never`.

        Args:
            annotations: Annotations of the tool.
        """
        if self.rerun is not None:
            return self.rerun
        hints = annotations or {}
        return "safe" if hints.get("idempotentHint") or hints.get("readOnlyHint") else "never"


def task_of(what: str, task: object) -> Task | None:
    """Return the checked value of `task=`; None when calls are never tasks.

    Raises:
        RegistrationError: The value has the wrong type or is out of range.
    """
    if task is None or task is False:
        return None
    if task is True:
        return Task()
    if not isinstance(task, Task):
        raise RegistrationError(
            f"{what}: task= must be True or a Task, such as Task(timeout=600), got {task!r}"
        )
    try:
        check_seconds("timeout", task.timeout)
        check_seconds("result_ttl", task.result_ttl)
        check_count("attempts", task.attempts)
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{what}: task=Task(...): {error}") from None
    if task.rerun not in {"safe", "never", None}:
        raise RegistrationError(f'{what}: task=Task(rerun=...) must be "safe" or "never", got {task.rerun!r}')
    if type(task.required) is not bool:
        raise RegistrationError(
            f"{what}: task=Task(required=...) must be True or False, got {task.required!r}"
        )
    return task


def check_headers(what: str, headers: frozenset[str]) -> None:
    """Refuse headers with credentials, which tasks do not store.

    Raises:
        RegistrationError: A header contains credentials.
    """
    if secret := sorted(headers & _CREDENTIALS):
        raise RegistrationError(
            f"{what}: a task does not store credentials, so FromHeader({secret[0]!r}) is always empty in it. Use "
            "ctx.principal, or remove task="
        )


_CREDENTIALS = frozenset({"authorization", "cookie", "dpop", "proxy-authorization"})


def digest_of(schema: Json) -> str:
    """Return a digest of a tool's input schema, 16 hexadecimal characters."""
    import hashlib

    return hashlib.sha256(to_json(schema)).hexdigest()[:16]
