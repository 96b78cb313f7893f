"""A tool whose calls may outlive their connections: what its author says of them."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic_core import to_json

from ..common.errors import RegistrationError
from ..common.numbers import check_count, check_seconds
from ..protocol.types import Json, ToolAnnotations

Rerun = Literal["safe", "never"]


class Task(NamedTuple):
    """Calls of a tool may be tasks, which outlive their connections: `@server.tool(task=Task(timeout=600))`.

    A client that knows tasks gets a handle at once, and asks for the result later; any other client waits for the
    result as ever, unless `required` is true.

    Attributes:
        timeout: Seconds that the function may work on one task in all, those in which a question is open left out.
        keep: Seconds for which the result is kept.
        rerun: Whether the function may be run again where a process has ended in its midst: `safe`, from the top; or
            `never`: then the task fails, and nobody can tell whether its work was done. None is `safe` where the
            annotations say that the tool is idempotent or reads only, and else `never`.
        attempts: How many runs may be begun that end with their process, until the task fails.
        required: Whether clients that know no tasks are refused.

    Raises:
        RegistrationError: One of them is out of range; the message names it.
    """

    timeout: float = 3600.0
    keep: float = 86400.0
    rerun: Rerun | None = None
    attempts: int = 3
    required: bool = False

    def reruns(self, annotations: ToolAnnotations | None) -> Rerun:
        """Return whether a function with these annotations is run again."""
        if self.rerun is not None:
            return self.rerun
        hints = annotations or {}
        return "safe" if hints.get("idempotentHint") or hints.get("readOnlyHint") else "never"


def task_of(what: str, task: object) -> Task | None:
    """Return what stands in `task=`, checked; None where calls are never tasks.

    Raises:
        RegistrationError: It is something else, or out of range.
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
        check_seconds("keep", task.keep)
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
    """Refuse headers that a task does not keep.

    Raises:
        RegistrationError: One of them says who asks.
    """
    if secret := sorted(headers & _CREDENTIALS):
        raise RegistrationError(
            f"{what}: a task does not store credentials, so FromHeader({secret[0]!r}) is always empty in it. Use "
            "ctx.principal, or remove task="
        )


_CREDENTIALS = frozenset({"authorization", "cookie", "dpop", "proxy-authorization"})


def digest_of(schema: Json) -> str:
    """Return what tells a version of a tool from others that take other arguments: 16 characters."""
    import hashlib

    return hashlib.sha256(to_json(schema)).hexdigest()[:16]
