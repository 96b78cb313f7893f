import os

from mcpkit import Context, HttpOptions, Scope, Server
from mcpkit.auth import OAuthProxy, UpstreamProvider
from mcpkit.storage import Sqlite

GITHUB = UpstreamProvider.github(
    os.environ.get("GITHUB_CLIENT_ID", "the client ID"),
    os.environ.get("GITHUB_CLIENT_SECRET", "the client secret"),
)
USERS = os.environ.get("USERS", "").split()
PUBLIC_URL = os.environ.get("PUBLIC_URL", "http://127.0.0.1:8000/mcp")

server = Server(
    "notes",
    auth=OAuthProxy(GITHUB, allow=lambda user: user.claims["login"] in USERS),
    scopes={"notes:read": Scope("Read your notes", default=True)},
    storage=Sqlite("notes.db"),
    secret_key=os.environ.get("MCPKIT_SECRET", "only for development"),
)


@server.tool(scopes="notes:read")
def whoami(ctx: Context) -> str:
    """Return the user who is logged in."""
    return f"{ctx.principal.claims['login']} ({ctx.principal.id})"


app = server.asgi(
    public_url=PUBLIC_URL, http=HttpOptions(readiness_path="/health")
)
