from mcpkit import Access, Context, Principal, Scope, Server
from mcpkit.auth import DevAuth

server = Server(
    "notes",
    auth=DevAuth(users=["ada", "bob"]),
    scopes={
        "notes:read": Scope("Read notes", default=True),
        "notes:write": Scope("Change notes", implies=["notes:read"]),
        "notes:admin": Scope("Remove all notes", implies=["notes:write"]),
    },
)


def is_admin(user: Principal) -> bool:
    return "notes:admin" in user.scopes


@server.tool(scopes="notes:read")
def list_notes() -> list[str]:
    """List the notes."""
    return ["Buy milk"]


@server.tool(access=Access(scopes="notes:write", optional_scopes="notes:admin"))
def remove_note(number: int, ctx: Context, owner: str | None = None) -> str:
    """Remove a note."""
    if owner is not None:
        ctx.require_scopes("notes:admin")
    return f"removed note {number}"


@server.tool(access=Access(visible=is_admin))
def count_users() -> int:
    """Count the users."""
    return 2


if __name__ == "__main__":
    server.run("http")
