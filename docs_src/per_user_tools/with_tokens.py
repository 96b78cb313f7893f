import hmac

from starlette.applications import Starlette
from starlette.authentication import (
    AuthCredentials,
    AuthenticationBackend,
    AuthenticationError,
    SimpleUser,
)
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount

from mcpkit import HttpOptions
from server import server

TOKENS = {"token-of-ada": ("ada", ["admin"]), "token-of-bob": ("bob", [])}
PAGES = ["https://notes.example.com"]
EXPOSED = [
    "Mcp-Session-Id",
    "MCP-Protocol-Version",
    "Retry-After",
    "WWW-Authenticate",
]


class Tokens(AuthenticationBackend):
    async def authenticate(
        self, conn: HTTPConnection
    ) -> tuple[AuthCredentials, SimpleUser] | None:
        if conn.url.path == "/health":
            return None  # a load balancer has no token
        header = conn.headers.get("authorization", "")
        scheme, _, given = header.partition(" ")
        for token, (name, scopes) in TOKENS.items():
            same = hmac.compare_digest(token.encode(), given.strip().encode())
            if scheme.lower() == "bearer" and same:
                return AuthCredentials(scopes), SimpleUser(name)
        raise AuthenticationError(
            "Send a known token: Authorization: Bearer ..."
        )


def refuse(_: HTTPConnection, problem: AuthenticationError) -> Response:
    headers = {"WWW-Authenticate": 'Bearer realm="notes"'}
    return PlainTextResponse(str(problem), 401, headers)


options = HttpOptions(readiness_path="/health", cors=False)
app = Starlette(
    routes=[Mount("/", app=server.asgi(http=options, allowed_origins=PAGES))],
    middleware=[
        Middleware(
            CORSMiddleware,
            allow_origins=PAGES,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=EXPOSED,
        ),
        Middleware(AuthenticationMiddleware, backend=Tokens(), on_error=refuse),
    ],
)
