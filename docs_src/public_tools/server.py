from mcpkit import Access, Context, Scope, Server
from mcpkit.auth import StaticTokens

ADA, BOB = (StaticTokens.make()[0] for _ in range(2))
server = Server(
    "notes",
    auth=StaticTokens({ADA: "ada", BOB: "bob"}),
    scopes={"notes:read": Scope("Read notes", default=True)},
)


@server.tool(access=Access(allow_anonymous=True))
def weather() -> str:
    """Return the weather, for everyone."""
    return "sunny"


@server.tool
def whoami(ctx: Context) -> str:
    """Return the user of the token."""
    return str(ctx.principal.id)


if __name__ == "__main__":
    server.run("http")
