"""A server whose users log in with GitHub, and that lists their repositories.

To try it, at http://127.0.0.1:8000/mcp with the callback
http://127.0.0.1:8000/callback:

    python server.py

In production, with any number of --workers:

    uvicorn --factory server:app

Environment variables:

GITHUB_CLIENT_ID, GITHUB_CLIENT_SECRET
             of the OAuth app at GitHub with this callback
USERS        GitHub names of the users that may log in, such as "ada grace"
PUBLIC_URL   the URL for clients, such as https://mcp.example.com/mcp
PORT         the port of `python server.py`; 8000
DATABASE     an SQLite file for logins, shared by all workers;
             needs MCPKIT_SECRET
"""

from __future__ import annotations

import os

import httpx2
from pydantic import BaseModel
from starlette.types import ASGIApp

from mcpkit import Context, HttpOptions, Principal, Scope, Server, ToolError
from mcpkit.auth import OAuthProxy, UpstreamProvider
from mcpkit.storage import Sqlite

CLIENT_ID = os.environ["GITHUB_CLIENT_ID"]
CLIENT_SECRET = os.environ["GITHUB_CLIENT_SECRET"]
USERS = os.environ.get("USERS", "").split()
PUBLIC_URL = os.environ.get("PUBLIC_URL")
PORT = int(os.environ.get("PORT", "8000"))
DATABASE = os.environ.get("DATABASE")

GITHUB = httpx2.AsyncClient(base_url="https://api.github.com")


class Repository(BaseModel):
    """A repository of the user."""

    full_name: str
    private: bool


def is_allowed(user: Principal) -> bool:
    """Return whether a user of GitHub may use this server."""
    return user.claims["login"] in USERS


server = Server(
    "repositories",
    version="1.0.0",
    title="Repositories",
    auth=OAuthProxy(
        UpstreamProvider.github(CLIENT_ID, CLIENT_SECRET),
        allow=is_allowed,
    ),
    scopes={"repositories:read": Scope("See your repositories", default=True)},
    storage=Sqlite(DATABASE) if DATABASE else None,
)


@server.tool(scopes="repositories:read")
async def repositories(ctx: Context) -> list[Repository]:
    """List the repositories of the user at GitHub, the last pushed first."""
    token = await ctx.upstream_token("github")
    headers = {"Authorization": f"Bearer {token}"}
    query = {"sort": "pushed"}
    answer = await GITHUB.get("/user/repos", params=query, headers=headers)
    if answer.status_code != 200:
        raise ToolError(f"GitHub responded with status {answer.status_code}.")
    return [Repository.model_validate(each) for each in answer.json()]


def app() -> ASGIApp:
    """Return the ASGI app for uvicorn."""
    options = HttpOptions(readiness_path="/health")
    return server.asgi(public_url=PUBLIC_URL, http=options)


if __name__ == "__main__":
    server.run("http", port=PORT, public_url=PUBLIC_URL)
