"""Which URLs may be asked, and which are the same."""

from __future__ import annotations

import pytest

from mcpkit.auth.urls import MetadataError, canonical, check_url, covers, is_loopback, leads_here, origin


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "localhost."]
)
def test_this_machine_is_known_by_name_and_address(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "127.1",
        "127.0.0.1.",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "0",
        "0.0.0.0",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:7f00:1",
    ],
)
def test_whatever_systems_read_as_this_machine_leads_here(host: str) -> None:
    assert leads_here(host)


@pytest.mark.parametrize(
    "host", [None, "", "id.example.com", "10.0.0.1", "128.1", "::ffff:10.0.0.1", "::2", "x" * 70]
)
def test_what_systems_read_as_others_leads_elsewhere(host: str | None) -> None:
    assert not leads_here(host)


@pytest.mark.parametrize("host", [None, "", "localhost.example.com", "10.0.0.1", "127.0.0.1.nip.io", "::2"])
def test_others_are_not_this_machine(host: str | None) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        (None, "the door is no URL"),
        ("http://id.example.com/token", "not encrypted"),
        ("javascript:alert(1)", "no URL of https"),
        ("file:///etc/passwd", "no URL of https"),
        ("https://", "no URL of https"),
        ("https://id.example.com:99999/", "no URL of https"),
        ("https://id.example.com/a b", "no URL of https"),
        ("https://id.example.com/\n", "no URL of https"),
        ("https://[bad/", "no URL of https"),
        ("https://a..example/", "no URL of https"),
        ("https://.example/", "no URL of https"),
        (f"https://{'a' * 64}.example/", "no URL of https"),
        ("https://id.example.com/#x", "fragment"),
        ("https://id.example.com/#", "fragment"),
    ],
)
def test_a_url_that_secrets_cannot_be_sent_to_is_refused(url: object, wrong: str) -> None:
    with pytest.raises(MetadataError, match=wrong):
        check_url(url, "the door")


@pytest.mark.parametrize("accepts_http", [None, False, True])
def test_a_plain_url_names_the_setting_where_there_is_one(accepts_http: bool | None) -> None:
    url = "http://id.example.com/token"
    if accepts_http:
        assert check_url(url, "the door", accepts_http=accepts_http) == url
        return
    with pytest.raises(MetadataError) as refused:
        check_url(url, "the door", accepts_http=accepts_http)
    assert ("accept_plain_http" in str(refused.value)) is (accepts_http is False)


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(MetadataError) as refused:
        check_url("https://user:hunter2@id.example.com/", "the door")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://id.example.com/token",
        "https://id.example.com./token",
        f"https://{'a' * 63}.example/",
        "http://127.0.0.1:9000/token",
        "http://[::1]/",
    ],
)
def test_what_is_encrypted_or_of_this_machine_may_be_asked(url: str) -> None:
    assert check_url(url, "the door") == url


def test_servers_have_one_canonical_form() -> None:
    assert canonical("HTTPS://MCP.Example.com:443/Mcp?a=B#c") == "https://mcp.example.com/Mcp?a=B"
    assert canonical("https://mcp.example.com/") == "https://mcp.example.com"
    assert canonical("http://[::1]:8000/mcp/") == "http://[::1]:8000/mcp/"
    assert origin("https://mcp.example.com:8443/mcp") == "https://mcp.example.com:8443"


@pytest.mark.parametrize(
    ("resource", "url", "expected"),
    [
        ("https://a.example/mcp", "https://a.example/mcp", True),
        ("https://A.example/mcp/", "https://a.example/mcp", True),
        ("https://a.example", "https://a.example/mcp", True),
        ("https://a.example/", "https://a.example/mcp", True),
        ("https://a.example/mc", "https://a.example/mcp", False),
        ("https://a.example/mcp", "https://a.example/mc", False),
        ("https://a.example/other", "https://a.example/mcp", False),
        ("https://b.example/mcp", "https://a.example/mcp", False),
        ("http://a.example/mcp", "https://a.example/mcp", False),
        ("https://a.example:8443/mcp", "https://a.example/mcp", False),
        ("https://a.example/mcp?team=1", "https://a.example/mcp", False),
        ("https://a.example/mcp", "https://a.example/mcp?team=1", True),
    ],
)
def test_a_resource_covers_its_url_and_what_is_below_it(resource: str, url: str, expected: bool) -> None:
    assert covers(resource, url) is expected
