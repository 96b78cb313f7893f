"""Host and Origin checks."""

import time
from typing import Any

import pytest

from mcpkit.transports.http import app_options as module
from mcpkit.transports.http.app_options import Guard
from tests.helpers.tables import each_row

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def refusal_of(guard: Guard, host: str | None = "localhost", origin: str | None = None) -> Any:
    return guard.refuse(*(None if text is None else text.encode("latin-1") for text in (host, origin)))


def passes(guard: Guard, host: str | None = "localhost", origin: str | None = None) -> bool:
    return refusal_of(guard, host, origin) is None


@each_row("host", [
    None, "", ":8000", "evil.example", "evil.example:8000", "127.0.0.1.evil.example",
    "localhost.evil.example:80", "evil-localhost", "localhost:8000.evil.example", "localhost:*",
    "localhost:x", "localhost:\xb2", "localhost:80:80", "localhost,evil.example", "user@localhost",
    " localhost", "0.0.0.0:8000", "10.0.0.1", "::1", "*", "\xff",
])  # fmt: skip
def test_guard_refuses_other_host_with_setting(host: str | None) -> None:
    status, text = refusal_of(Guard(), host)
    assert (status, "server.asgi(allowed_hosts=[" in text) == (421, True)


@each_row("origin", [
    "", "null", "*", "https://evil.example", "http://localhost.evil.example",
    "http://evil.example:8000", "http://localhost:8000/", "http://localhost:8000/path",
    "http://localhost:*", "http://localhost@evil.example", "http://user@localhost",
    "http://localhost, https://evil.example", "ftp://localhost", "localhost", "//localhost", "file://",
    "\xe9",
])  # fmt: skip
def test_guard_refuses_other_origin_with_setting(origin: str) -> None:
    status, text = refusal_of(Guard(), origin=origin)
    assert (status, "server.asgi(allowed_origins=[" in text) == (403, True)
    assert not Guard().allows_origin(origin)


LISTED = ["null", "file://", "vscode-webview://1abc2", "app://app"]
EXAMPLE = {"allowed_hosts": ["example.com:*", "[2001:db8::1]:*"]}
SCHEME = {"allowed_origins": ["moz-extension://*"]}
ALL_HOSTS, ALL_ORIGINS = {"allowed_hosts": ["*"]}, {"allowed_origins": ["*"]}
BELOW = {"allowed_hosts": ["*.EXAMPLE.com"], "allowed_origins": ["https://*.Example.com"]}
BELOW_PORT = {"allowed_hosts": ["*.example.com:8000"], "allowed_origins": ["https://*.example.com:8000"]}
BELOW_ANY = {"allowed_hosts": ["*.example.com:*"], "allowed_origins": ["https://*.example.com:*"]}
NAMES = {
    True: ["a.example.com", "A.example.COM", "pr-17--app.a.example.com", "a.b.c.example.com"],
    False: [
        "example.com", ".example.com", "a..example.com", "*.example.com", "x y.example.com",
        "a@b.example.com", "a/b.example.com", "a#.example.com", "a%2e.example.com", "\xe9.example.com",
        "a.xexample.com", "xexample.com", "a.example.com.evil", "a.example.com.", "evil",
    ],
}  # fmt: skip


@each_row(("settings", "host", "origin", "is_accepted"), [
    *(({}, name + port, None, True) for name in LOOPBACK for port in ("", ":", ":80", ":65535")),
    *(({}, "localhost", f"https://{name}:6274", True) for name in LOOPBACK),
    *((EXAMPLE, host, None, True) for host in ("example.com", "example.com:81", "[2001:db8::1]:81")),
    (EXAMPLE, "www.example.com:81", None, False),
    *(({"allowed_origins": [origin]}, "localhost", origin, True) for origin in LISTED),
    *((ALL_HOSTS, host, None, True) for host in (None, "", "evil.example", "\xff")),
    (ALL_HOSTS, None, "https://evil.example", False),
    *((ALL_ORIGINS, "localhost", origin, True) for origin in ("null", "", "https://evil.example")),
    (ALL_ORIGINS, "evil.example", "https://evil.example", False),
    (SCHEME, "localhost", "moz-extension://5f0b6c1e-2d0a-4f7c-9b1e-0a1b2c3d4e5f", True),
    *((SCHEME, "localhost", f"moz-extension://{rest}", False) for rest in ("", "a/b", "a:1")),
    *((SCHEME, "localhost", origin, False) for origin in ("xmoz-extension://a", "https://a", "null")),
    *((BELOW, name, None, fits) for fits, names in NAMES.items() for name in names),
    *((BELOW, "localhost", f"https://{name}", fits) for fits, names in NAMES.items() for name in names),
    *(
        (BELOW, f"a.example.com:{port}", None, fits)
        for port, fits in ((80, True), (443, True), (81, False))
    ),
    *(
        (BELOW, "localhost", origin, fits)
        for origin, fits in (
            ("https://a.example.com:443", True),
            ("https://a.example.com:80", False),
            ("http://a.example.com", False),
        )
    ),
    *((BELOW_PORT, f"a.example.com{port}", None, port == ":8000") for port in ("", ":80", ":8000")),
    *(
        (BELOW_PORT, "localhost", f"https://a.example.com{port}", port == ":8000")
        for port in ("", ":443", ":8000")
    ),
    *((BELOW_ANY, f"a.example.com{port}", None, True) for port in ("", ":1")),
    *(
        (BELOW_ANY, "localhost", f"{scheme}://a.example.com:1", scheme == "https")
        for scheme in ("https", "http")
    ),
])  # fmt: skip
def test_guard_setting_accepts_hosts_and_origins(settings, host, origin, is_accepted) -> None:
    guard = Guard(**settings)
    assert passes(guard, host, origin) == is_accepted
    assert guard.allows_all_origins == (settings is ALL_ORIGINS)


@each_row(("public_url", "host", "origin"), [
    ("https://example.com/mcp", "example.com", "https://example.com"),
    ("https://example.com", "example.com:443", "https://example.com"),
    ("http://example.com:8080/a/b", "example.com:8080", "http://example.com:8080"),
    ("HTTPS://Example.com/", "example.com", "https://example.com"),
    ("http://[2001:db8::1]:81", "[2001:db8::1]:81", "http://[2001:db8::1]:81"),
])  # fmt: skip
def test_guard_accepts_public_url(public_url: str, host: str, origin: str) -> None:
    guard = Guard(public_url=public_url)
    assert passes(guard, host, origin)
    assert passes(guard, "localhost:8000", origin)
    assert not passes(guard, "www.example.com", origin)
    assert not passes(guard, host, "http://example.com:1")


INVALID = {
    ("allowed_hosts", "'example.com'"): ["https://api.example.org/mcp", "api.example.org/mcp", "", "[broken"],
    ("allowed_hosts", "'[2001:db8::1]'"): ["2001:db8::1"],
    ("allowed_hosts", "'xn--...'"): ["bücher.example"],
    ("allowed_hosts", "'*.example.com' for all subdomains"): [
        "*example.com", "a.*.example.com", "*.*.example.com", "*.", "*.127.0.0.1", "*.[::1]", "*:80",
    ],
    ("allowed_hosts", "':*' for any port"): ["example.com:port"],
    ("allowed_origins", "'https://example.com'"): ["api.example.org", "https://"],
    ("allowed_origins", "without a path"): ["http://api.example.org/"],
    ("allowed_origins", "'https://*.example.com'"): [
        "https://*example.org", "*://example.org", "https://*", "http://*:*", "*.example.org", "x://*:1",
    ],
    ("public_url", "'https://example.com/mcp'"): [
        "example.com", "ftp://example.com", "https:///mcp", "https://example.com:*/mcp",
        "https://*.example.com/mcp", "https://user@example.com/mcp",
    ],
}  # fmt: skip


@each_row(
    ("setting", "advice", "entry"), [(*key, entry) for key, entries in INVALID.items() for entry in entries]
)
def test_guard_invalid_setting_is_refused_with_advice(setting: str, advice: str, entry: str) -> None:
    with pytest.raises(ValueError, match=setting) as refused:
        Guard(**{setting: entry if setting == "public_url" else [entry]})
    assert advice in str(refused.value)


def test_guard_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MAX_REMEMBERED", 10)
    guard = Guard(allowed_hosts=["*"], allowed_origins=["*"])
    for number in range(100):
        assert passes(guard, f"host{number}")
        assert len(guard.passed) <= 10
    assert passes(guard, "a" * 600)
    assert (b"a" * 600, None) not in guard.passed


def test_guard_host_with_thousands_of_labels_is_refused_quickly():
    guard = Guard(allowed_hosts=["*.example.com"], allowed_origins=["https://*.example.com"])
    longest = "a." * 121 + "example.com"
    assert passes(guard, longest)
    assert passes(guard, origin=f"https://{longest}")
    began = time.process_time()
    assert not passes(guard, "a." * 100_000 + "example.com")
    assert not passes(guard, origin="https://" + "a." * 100_000 + "example.com")
    assert time.process_time() - began < 2  # quadratic work would take minutes
