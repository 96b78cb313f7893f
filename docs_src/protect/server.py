from mcpkit import Context, Scope, Server
from mcpkit.auth import Jwt

server = Server(
    "notes",
    auth=Jwt("https://id.example.com"),
    scopes={"notes:read": Scope("Read notes", default=True)},
)


@server.tool(scopes="notes:read")
def whoami(ctx: Context) -> str:
    """Return the user who is logged in, and the client."""
    return f"{ctx.principal.subject} by {ctx.principal.client_id}"


if __name__ == "__main__":
    server.run("http", public_url="https://mcp.example.com/mcp")
