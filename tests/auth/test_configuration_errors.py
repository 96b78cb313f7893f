"""Configuration errors name the change."""

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


def asgi(auth: Any, public_url: str = URL) -> None:
    make_server(auth).asgi(public_url=public_url)


def with_tool(**options: Any) -> None:
    @make_server(Jwt(ISSUER)).tool(**options)
    def tool() -> None: ...


METADATA_URL = "the URL of a metadata document. Use the value of its `issuer`"
EXAMPLE = r"for example Jwt\(.https://id.example.com.\)"
MEANT = "did you mean 'notes:read'"


@each_row(("configure", "message"), [
    # whose tokens
    (lambda: make_server(ISSUER), rf"{EXAMPLE} of mcpkit.auth"),
    (lambda: make_server("oauth"), rf"{EXAMPLE} of mcpkit.auth"),
    (lambda: make_server(Jwt), EXAMPLE),
    (lambda: make_server(OAuth()), EXAMPLE),
    (lambda: make_server(UpstreamProvider.github("ID", "a secret")),
        r"for example OAuthProxy\(UpstreamProvider\.github\(CLIENT_ID"),
    (lambda: make_server([Jwt(ISSUER), Jwt(ISSUER)]), "two verifiers have the same issuer"),
    (lambda: Jwt(None), "the issuer must be a string, got 'None'"),
    (lambda: Jwt("id.example.com"), "the issuer is not a valid https URL: 'id.example.com'"),
    (lambda: Jwt(f"{ISSUER}?a=b"), "the issuer must not have a query"),
    (lambda: Jwt("http://id.example.com"), "the issuer is not encrypted: .*Use https"),
    (lambda: Jwt(f"{ISSUER}/.well-known/openid-configuration"), METADATA_URL),
    (lambda: Jwt(f"{ISSUER}/.well-known/oauth-authorization-server"), METADATA_URL),
    (lambda: Jwt(ISSUER, algorithms=["HS256"]), "'HS256' is not supported. Choose asymmetric ones"),
    (lambda: StaticTokens({"let me in": "ada"}),
        r'Make one with: python -c "from mcpkit\.auth import Sta'),
    # where
    (lambda: make_server(Jwt(ISSUER)).asgi(), r'server\.asgi\(public_url="https://example\.com/mcp"\)'),
    (lambda: make_server(Jwt(ISSUER)).run("http", host="0.0.0.0"), r'server\.run\("http", public_url='),
    (lambda: asgi(Jwt(ISSUER), public_url=""), "Write it like 'https://example.com/mcp'"),
    (lambda: asgi(Jwt(ISSUER), public_url="example.com/mcp"), "Write it like 'https://example"),
    (lambda: asgi(Jwt(ISSUER), public_url="https://example.com"), "Let both end alike, or set sse=F"),
    (lambda: Server("notes").asgi(auth=Jwt(ISSUER)), r"Pass it to the server: Server\(auth=\.\.\.\)"),
    # scopes
    (lambda: with_tool(scopes="notes:raed"), f"tool 'tool' needs .*{MEANT}"),
    (lambda: with_tool(access=Access(optional_scopes=["notes:raed"])), f"tool 'tool' needs .*{MEANT}"),
    (lambda: with_tool(scopes="notes:read notes:write"), "a scope must consist of visible ASCII"),
    (lambda: with_tool(access=Access(scopes="notes:read", allow_anonymous=True)),
        "Remove one of the two"),
    (lambda: make_server().route("/export", scopes="notes:read"), "scopes= needs a server with auth="),
    (lambda: make_server(Jwt(ISSUER)).route("/export", scopes="notes:raed"),
        f"route '/export' needs .*{MEANT}"),
    # development
    (lambda: asgi(DevAuth(), public_url="https://example.com/mcp"), r"Use a real .*auth=Jwt\("),
    (lambda: DevAuth(users={"ada": "secret of ada's"}),
        r'DevUser\("bob", password="\.\.\."\)\], not dict'),
    (lambda: asgi(DevAuth(users=[DevUser("ada", scopes=["notes:raed"])])),
        f"DevUser 'ada' may grant 'notes:raed', .*{MEANT}"),
    (lambda: asgi(DevAuth(clients=[DevClient("ci", secret="s", scopes=["notes:raed"])])),
        f"DevClient 'ci' may have 'notes:raed', .*{MEANT}"),
    # stores
    (lambda: make_server(storage=Sqlite("notes.db")),
        r"Set MCPKIT_SECRET or write Server\(secret_key=\.\.\.\)"),
    (lambda: make_server(storage="notes.db", secret_key="s" * 16),
        r"such as Memory\(\) or Sqlite\('notes.db'\)"),
    # clients
    (lambda: Client(URL, auth="oath"), 'auth= must be "oauth", an object such as OAuth'),
    (lambda: Client(URL, auth=Jwt(ISSUER)), "an object such as OAuth"),
    (lambda: Client(URL, auth="oauth", token="t"), "pass only one of"),
])  # fmt: skip
def test_configuration_errors_name_the_change(monkeypatch, configure, message):
    monkeypatch.delenv("MCPKIT_SECRET", raising=False)
    with pytest.raises((TypeError, ValueError, RegistrationError), match=message) as raised:
        configure()
    assert "secret of ada's" not in str(raised.value)


JWT = "Server('n', auth=Jwt('https://id.example.com'))"
INTROSPECTION = "Server('n', auth=Introspection('https://id.example.com', client_id='n', client_secret='s'))"
DEV_AUTH = "Server('n', auth=DevAuth()).asgi(public_url='http://127.0.0.1:8000/mcp')"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "expression"),
    [("joserfc", JWT), ("joserfc", DEV_AUTH), ("httpx2", JWT), ("httpx2", INTROSPECTION)],
)
def test_missing_library_error_names_extra(missing, expression):
    hide = f"import sys\nsys.modules[{missing!r}] = None"
    imports = "from mcpkit import Server\nfrom mcpkit.auth import DevAuth, Introspection, Jwt"
    command = [sys.executable, "-c", f"{hide}\n{imports}\n{expression}"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    message = rf"ImportError: authorization needs {missing}. Run: (uv )?pip install .*\[auth\]"
    assert re.search(message, completed.stderr)
