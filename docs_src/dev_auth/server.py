from mcpkit import Context, Scope, Server
from mcpkit.auth import DevAuth, DevClient, DevUser

BOB = DevUser("bob", password="bob's own", scopes=["notes:read"])
TESTS = DevClient("tests", secret="known to the tests", scopes=["notes:write"])

server = Server(
    "notes",
    auth=DevAuth(users=["ada", BOB], clients=[TESTS]),
    scopes={
        "notes:read": Scope("Read notes", default=True),
        "notes:write": Scope("Change notes", implies=["notes:read"]),
    },
)


@server.tool(scopes="notes:write")
def add_note(text: str, ctx: Context) -> str:
    """Add a note."""
    return f"{text!r} by {ctx.principal.id}"


if __name__ == "__main__":
    server.run("http")
