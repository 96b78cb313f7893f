"""Configuration errors say what to change."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from mcpkit import Access, Client, RegistrationError, Scope, Server
from mcpkit.auth import DevAuth, DevClient, DevUser, Jwt, StaticTokens, UpstreamProvider
from mcpkit.client import OAuth
from mcpkit.storage import Sqlite
from tests.helpers.serving import ROOT
from tests.helpers.tables import each_row

ISSUER = "https://id.example.com"


URL = "http://127.0.0.1:8000/mcp"


SCOPES = {"notes:read": Scope("Read notes"), "notes:write": Scope("Change notes")}


def make_server(auth: Any = None, **options: Any) -> Server:
    return Server("notes", auth=auth, scopes=SCOPES, **options)


def with_tool(**options: Any) -> None:
    @make_server(Jwt(ISSUER)).tool(**options)
    def tool() -> None: ...


@each_row(
    ("configure", "message"),
    [
        # whose tokens
        (
            lambda: make_server("https://id.example.com"),
            r"for example Jwt\('https://id.example.com'\) of mcpkit.auth",
        ),
        (lambda: make_server("oauth"), r"for example Jwt\(.https://id.example.com.\) of mcpkit.auth"),
        (lambda: make_server(Jwt), r'for example Jwt\("https://id.example.com"\)'),
        (lambda: make_server(OAuth()), r'for example Jwt\("https://id.example.com"\)'),
        (
            lambda: make_server(UpstreamProvider.github("ID", "a secret")),
            r"for example OAuthProxy\(UpstreamProvider\.github\(CLIENT_ID",
        ),
        (lambda: make_server([Jwt(ISSUER), Jwt(ISSUER)]), "two verifiers have the same issuer"),
        (lambda: Jwt(None), "the issuer must be a string, got 'None'"),  # type: ignore[arg-type]
        (lambda: Jwt("id.example.com"), "the issuer is not a valid https URL: 'id.example.com'"),
        (lambda: Jwt("http://id.example.com"), "the issuer is not encrypted: .*Use https"),
        (
            lambda: Jwt("https://id.example.com/.well-known/openid-configuration"),
            "the URL of a metadata document. Use the value of its `issuer`",
        ),
        (
            lambda: Jwt("https://id.example.com/.well-known/oauth-authorization-server"),
            "the URL of a metadata document. Use the value of its `issuer`",
        ),
        (lambda: Jwt(ISSUER, algorithms=["HS256"]), "'HS256' is not supported. Choose asymmetric ones"),
        (
            lambda: StaticTokens({"let me in": "ada"}),
            r'Make one with: python -c "from mcpkit\.auth import Sta',
        ),
        # where
        (lambda: make_server(Jwt(ISSUER)).asgi(), r'server\.asgi\(public_url="https://example\.com/mcp"\)'),
        (lambda: make_server(Jwt(ISSUER)).run("http", host="0.0.0.0"), r'server\.run\("http", public_url='),
        (lambda: make_server(Jwt(ISSUER)).asgi(public_url=""), "Write it like 'https://example.com/mcp'"),
        (
            lambda: make_server(Jwt(ISSUER)).asgi(public_url="example.com/mcp"),
            "Write it like 'https://example",
        ),
        (
            lambda: make_server(Jwt(ISSUER)).asgi(public_url="https://example.com"),
            "Let both end alike, or set sse=F",
        ),
        (lambda: Server("notes").asgi(auth=Jwt(ISSUER)), r"Pass it to the server: Server\(auth=\.\.\.\)"),
        # scopes
        (lambda: with_tool(scopes="notes:raed"), "tool 'tool' needs .*did you mean 'notes:read'"),
        (
            lambda: with_tool(access=Access(optional_scopes=["notes:raed"])),
            "tool 'tool' needs .*did you mean 'notes:read'",
        ),
        (lambda: with_tool(scopes="notes:read notes:write"), "a scope must consist of visible ASCII"),
        (
            lambda: with_tool(access=Access(scopes="notes:read", allow_anonymous=True)),
            "Remove one of the two",
        ),
        (
            lambda: make_server().route("/export", scopes="notes:read"),
            "scopes= needs a server with auth=",
        ),
        (
            lambda: make_server(Jwt(ISSUER)).route("/export", scopes="notes:raed"),
            "route '/export' needs .*did you mean 'notes:read'",
        ),
        # development
        (
            lambda: make_server(DevAuth()).asgi(public_url="https://example.com/mcp"),
            r"Use a real .*auth=Jwt\(",
        ),
        (
            lambda: DevAuth(users={"ada": "secret of ada's"}),
            r'DevUser\("bob", password="\.\.\."\)\], not dict',
        ),  # type: ignore[arg-type]
        (
            lambda: make_server(DevAuth(users=[DevUser("ada", scopes=["notes:raed"])])).asgi(public_url=URL),
            "DevUser 'ada' may grant 'notes:raed', .*did you mean 'notes:read'",
        ),
        (
            lambda: make_server(DevAuth(clients=[DevClient("ci", secret="s", scopes=["notes:raed"])])).asgi(
                public_url=URL
            ),
            "DevClient 'ci' may have 'notes:raed', .*did you mean 'notes:read'",
        ),
        # stores
        (
            lambda: make_server(storage=Sqlite("notes.db")),
            r"Set MCPKIT_SECRET or write Server\(secret_key=\.\.\.\)",
        ),
        (
            lambda: make_server(storage="notes.db", secret_key="s" * 16),
            r"such as Memory\(\) or Sqlite\('notes.db'\)",
        ),
        # clients
        (
            lambda: Client("https://example.com/mcp", auth="oath"),
            'auth= must be "oauth", an object such as OAuth',
        ),  # type: ignore[arg-type]
        (lambda: Client("https://example.com/mcp", auth=Jwt(ISSUER)), "an object such as OAuth"),  # type: ignore[arg-type]
        (lambda: Client("https://example.com/mcp", auth="oauth", token="t"), "pass only one of"),
    ],
)
def test_configuration_errors_name_the_change(monkeypatch, configure, message):
    monkeypatch.delenv("MCPKIT_SECRET", raising=False)
    with pytest.raises((TypeError, ValueError, RegistrationError), match=message) as raised:
        configure()
    assert "secret of ada's" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "expression"),
    [
        ("joserfc", "Server('n', auth=Jwt('https://id.example.com'))"),
        ("joserfc", "Server('n', auth=DevAuth()).asgi(public_url='http://127.0.0.1:8000/mcp')"),
        ("httpx2", "Server('n', auth=Jwt('https://id.example.com'))"),
        (
            "httpx2",
            "Server('n', auth=Introspection('https://id.example.com', client_id='n', client_secret='s'))",
        ),
    ],
)
def test_missing_library_error_names_extra(missing, expression):
    program = f"""
import sys
sys.modules[{missing!r}] = None
from mcpkit import Server
from mcpkit.auth import DevAuth, Introspection, Jwt
{expression}
"""
    completed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert re.search(
        rf"ImportError: authorization needs {missing}. Run: pip install .*\[auth\]", completed.stderr
    )
