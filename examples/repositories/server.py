"""What GitHub knows of whoever has logged in: a server whose users log in with GitHub.

python server.py     to try it, at http://127.0.0.1:8000/mcp; its callback is http://127.0.0.1:8000/callback
uvicorn --factory server:app     in production, with as many --workers as you like

GITHUB_CLIENT_ID, GITHUB_CLIENT_SECRET   what GitHub has given out for the callback
USERS        who may come in, as GitHub calls them, such as "ada grace"
PUBLIC_URL   where clients reach the server, such as https://mcp.example.com/mcp
PORT         the port to listen on, by python; 8000
DATABASE     the file that keeps logins, and that workers share; it takes MCPKIT_SECRET
"""

from __future__ import annotations

import os

import httpx2
from pydantic import BaseModel
from starlette.types import ASGIApp

from mcpkit import Context, HttpOptions, Principal, Scope, Server, ToolError
from mcpkit.auth import OAuthProxy, Upstream
from mcpkit.storage import Sqlite

USERS = os.environ.get("USERS", "").split()
PUBLIC_URL = os.environ.get("PUBLIC_URL")
PORT = int(os.environ.get("PORT", "8000"))
DATABASE = os.environ.get("DATABASE")

GITHUB = httpx2.AsyncClient(base_url="https://api.github.com")


class Repository(BaseModel):
    """A repository of the user's."""

    full_name: str
    private: bool


def may_come_in(who: Principal) -> bool:
    """Say whether a user of GitHub may use this server."""
    return who.claims["login"] in USERS


server = Server(
    "repositories",
    version="1.0.0",
    title="Repositories",
    auth=OAuthProxy(
        Upstream.github(os.environ["GITHUB_CLIENT_ID"], os.environ["GITHUB_CLIENT_SECRET"]),
        allow=may_come_in,
    ),
    scopes={"repositories:read": Scope("See your repositories at GitHub", default=True)},
    storage=Sqlite(DATABASE) if DATABASE else None,
)


@server.tool(scopes="repositories:read")
async def repositories(ctx: Context) -> list[Repository]:
    """List the repositories of the user at GitHub, those first that changed last."""
    token = await ctx.upstream_token("github")
    headers = {"Authorization": f"Bearer {token}"}
    answer = await GITHUB.get("/user/repos", params={"sort": "pushed"}, headers=headers)
    if answer.status_code != 200:
        raise ToolError(f"GitHub has answered {answer.status_code}.")
    return [Repository.model_validate(each) for each in answer.json()]


def app() -> ASGIApp:
    """Make what uvicorn serves."""
    return server.asgi(public_url=PUBLIC_URL, http=HttpOptions(readiness_path="/health"))


if __name__ == "__main__":
    server.run("http", port=PORT, public_url=PUBLIC_URL)
