"""A toy extension whose clients listen for what becomes of jobs that they know by id."""

from __future__ import annotations

from mcpkit import Context, Extension


class Jobs(Extension):
    """What becomes of jobs."""

    def __init__(self) -> None:
        super().__init__("com.example/jobs")
        self.states = self.topic("jobIds", "notifications/jobs", accept=self.accept)

    def accept(self, ids: list[str], ctx: Context) -> list[str]:
        """Let everybody hear of his own jobs alone."""
        owner = ctx.principal.id or "nobody"
        return [each for each in ids if each.startswith(f"{owner}/")]

    def set_state(self, job: str, state: str) -> None:
        """Say what has become of a job, from any thread."""
        self.states.publish(job, {"jobId": job, "state": state})
