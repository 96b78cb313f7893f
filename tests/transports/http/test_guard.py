"""Host and Origin checks."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit.transports.http.intake import guard as module
from mcpkit.transports.http.intake.guard import Guard
from tests.helpers.tables import each_row

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def passes(guard: Guard, host: str | None = "localhost", origin: str | None = None) -> bool:
    refusal = guard.refuse(
        None if host is None else host.encode("latin-1"),
        None if origin is None else origin.encode("latin-1"),
    )
    return refusal is None


def test_guard_refuses_other_host_with_setting():
    hosts = [
        None, "", ":8000", "evil.example", "evil.example:8000", "127.0.0.1.evil.example",
        "localhost.evil.example:80", "evil-localhost", "localhost:8000.evil.example", "localhost:*",
        "localhost:x", "localhost:\xb2", "localhost:80:80", "localhost,evil.example", "user@localhost",
        " localhost", "0.0.0.0:8000", "10.0.0.1", "::1", "*", "\xff",
    ]  # fmt: skip
    for host in hosts:
        refusal = Guard().refuse(None if host is None else host.encode("latin-1"), None)
        assert refusal is not None, host
        assert refusal[0] == 421
        assert "server.asgi(allowed_hosts=[" in refusal[1]


def test_guard_refuses_other_origin_with_setting():
    origins = [
        "", "null", "*", "https://evil.example", "http://localhost.evil.example",
        "http://evil.example:8000", "http://localhost:8000/", "http://localhost:8000/path",
        "http://localhost:*", "http://localhost@evil.example", "http://user@localhost",
        "http://localhost, https://evil.example", "ftp://localhost", "localhost", "//localhost", "file://",
        "\xe9",
    ]  # fmt: skip
    for origin in origins:
        refusal = Guard().refuse(b"localhost", origin.encode("latin-1"))
        assert refusal is not None, origin
        assert refusal[0] == 403
        assert "server.asgi(allowed_origins=[" in refusal[1]
        assert not Guard().allows_origin(origin)


LISTED = ["null", "file://", "vscode-webview://1abc2", "app://app"]
EXAMPLE = {"allowed_hosts": ["example.com:*", "[2001:db8::1]:*"]}
SCHEME = {"allowed_origins": ["moz-extension://*"]}
ALL_HOSTS, ALL_ORIGINS = {"allowed_hosts": ["*"]}, {"allowed_origins": ["*"]}


@each_row(
    ("settings", "host", "origin", "is_accepted"),
    [
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
    ],
)
def test_guard_setting_accepts_hosts_and_origins(
    settings: dict[str, Any], host: str | None, origin: str | None, is_accepted: bool
) -> None:
    guard = Guard(**settings)
    assert passes(guard, host, origin) == is_accepted
    assert guard.allows_all_origins == (settings is ALL_ORIGINS)


@each_row(
    ("public_url", "host", "origin"),
    [
        ("https://example.com/mcp", "example.com", "https://example.com"),
        ("https://example.com", "example.com:443", "https://example.com"),
        ("http://example.com:8080/a/b", "example.com:8080", "http://example.com:8080"),
        ("HTTPS://Example.com/", "example.com", "https://example.com"),
        ("http://[2001:db8::1]:81", "[2001:db8::1]:81", "http://[2001:db8::1]:81"),
    ],
)
def test_guard_accepts_public_url(public_url: str, host: str, origin: str) -> None:
    guard = Guard(public_url=public_url)
    assert passes(guard, host, origin)
    assert passes(guard, "localhost:8000", origin)
    assert not passes(guard, "www.example.com", origin)
    assert not passes(guard, host, "http://example.com:1")


def test_guard_invalid_setting_is_refused_with_advice():
    cases = {
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
    faults = []
    for (setting, advice), entries in cases.items():
        for entry in entries:
            try:
                Guard(**{setting: entry if setting == "public_url" else [entry]})
            except ValueError as error:
                if setting in str(error) and advice in str(error):
                    continue
            faults.append((setting, entry))
    assert not faults


def test_guard_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "_MAX_REMEMBERED", 10)
    guard = Guard(allowed_hosts=["*"], allowed_origins=["*"])
    for number in range(100):
        assert passes(guard, f"host{number}")
        assert len(guard._passed) <= 10
    assert passes(guard, "a" * 600)
    assert (b"a" * 600, None) not in guard._passed


def fits(entry: str, name: str) -> bool:
    labels, domain = name.split("."), entry.removeprefix("*.").split(".")
    own = labels[: -len(domain)]
    is_label = all(label and set(label) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_") for label in own)
    return bool(own) and is_label and labels[-len(domain) :] == domain


@st.composite
def names(draw: st.DrawFn) -> str:
    label = st.sampled_from(
        ["a", "pr-17--app", "example", "com", "evil", "*", "", "x y", "a@b", "a/b", "a#", "a%2e", "\xe9"]
    )
    domain = draw(
        st.sampled_from(["example.com", "example.com", "example.com.evil", "xexample.com", "example.com."])
    )
    return draw(st.sampled_from([".", ".", ".", ""])).join([*draw(st.lists(label, max_size=3)), domain])


@settings(derandomize=True)
@given(
    names(),
    st.sampled_from(
        [("", ""), ("", ":443"), ("", ":80"), (":8000", ":8000"), (":8000", ""), (":*", ":1"), ("", ":8000")]
    ),
    st.sampled_from(["https", "http"]),
)
def test_guard_host_wildcard_matches_one_label_or_more(
    name: str, ports: tuple[str, str], scheme: str
) -> None:
    entry_port, port = ports
    is_below = fits("*.example.com", name)
    guard = Guard(
        allowed_hosts=[f"*.EXAMPLE.com{entry_port}"], allowed_origins=[f"https://*.Example.com{entry_port}"]
    )
    on_default = entry_port == "" and port in {"", ":80", ":443"}
    expected = is_below and (on_default or entry_port == port or entry_port == ":*")
    assert passes(guard, name.upper() + port) == expected
    on_default = entry_port == "" and port in {"", ":443"}
    expected = is_below and scheme == "https" and (on_default or entry_port == port or entry_port == ":*")
    assert passes(guard, origin=f"{scheme}://{name}{port}") == expected


def test_guard_host_with_many_labels_is_refused_quickly():
    guard = Guard(allowed_hosts=["*.example.com"], allowed_origins=["https://*.example.com"])
    longest = "a." * 121 + "example.com"
    assert passes(guard, longest)
    assert passes(guard, origin=f"https://{longest}")
    began = time.process_time()
    assert not passes(guard, "a." * 100_000 + "example.com")
    assert not passes(guard, origin="https://" + "a." * 100_000 + "example.com")
    assert time.process_time() - began < 2  # a step for each label of each name below would take minutes


@given(
    st.sampled_from(LOOPBACK),
    st.text(alphabet="abc.:@/[]1", min_size=1, max_size=10),
)
def test_guard_refuses_names_that_contain_loopback(name, noise):
    assert not passes(Guard(), noise + name) or noise + name in LOOPBACK
    is_port = noise == ":" or (noise[0] == ":" and noise[1:].isdigit() and int(noise[1:]) < 65536)
    assert passes(Guard(), name + noise) == is_port
