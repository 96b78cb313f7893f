"""A toy extension whose clients listen for what becomes of jobs that they know by id."""

from __future__ import annotations

from mcpkit import Context, Extension

jobs = Extension("com.example/jobs")


def accept(ids: list[str], ctx: Context) -> list[str]:
    """Let everybody hear of his own jobs alone."""
    owner = ctx.principal.id or "nobody"
    return [each for each in ids if each.startswith(f"{owner}/")]


states = jobs.topic("jobIds", "notifications/jobs", accept=accept)


def set_state(job: str, state: str) -> None:
    """Say what has become of a job, from any thread."""
    states.publish(job, {"jobId": job, "state": state})
