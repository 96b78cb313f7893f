from mcpkit import Context, Principal, Scope, Server
from mcpkit.auth import OAuthProxy, UpstreamProvider
from mcpkit.storage import Sqlite

USERS = {"ada", "grace"}


def is_allowed(user: Principal) -> bool:
    return user.claims["login"] in USERS


server = Server(
    "notes",
    auth=OAuthProxy(
        UpstreamProvider.github("the client ID", "the client secret"),
        allow=is_allowed,
    ),
    scopes={"notes:read": Scope("Read your notes", default=True)},
    storage=Sqlite("notes.db"),
    secret_key="created once, and kept",
)


@server.tool(scopes="notes:read")
def whoami(ctx: Context) -> str:
    """Return the user who is logged in."""
    return f"{ctx.principal.claims['login']} ({ctx.principal.id})"


if __name__ == "__main__":
    server.run("http")
