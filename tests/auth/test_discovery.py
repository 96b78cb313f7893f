"""Where metadata is looked for, and what of it is believed."""

from __future__ import annotations

import pytest

from mcpkit.auth.discovery import (
    AuthorizationServerMetadata,
    ResourceMetadata,
    authorization_server_urls,
    origin_urls,
    protected_resource_urls,
)
from mcpkit.auth.urls import MetadataError

ISSUER = "https://id.example.com/tenant"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://mcp.example.com", ["https://mcp.example.com/.well-known/oauth-protected-resource"]),
        ("https://mcp.example.com/", ["https://mcp.example.com/.well-known/oauth-protected-resource"]),
        (
            "https://mcp.example.com/public/mcp",
            [
                "https://mcp.example.com/.well-known/oauth-protected-resource/public/mcp",
                "https://mcp.example.com/.well-known/oauth-protected-resource",
            ],
        ),
        (
            "HTTPS://user:secret@MCP.example.com:443/mcp?team=1#top",
            [
                "https://mcp.example.com/.well-known/oauth-protected-resource/mcp?team=1",
                "https://mcp.example.com/.well-known/oauth-protected-resource",
            ],
        ),
    ],
)
def test_a_server_is_described_at_its_path_and_at_the_root(url: str, expected: list[str]) -> None:
    assert list(protected_resource_urls(url)) == expected


@pytest.mark.parametrize("issuer", ["https://id.example.com", "https://id.example.com/"])
def test_an_issuer_without_a_path_is_asked_twice(issuer: str) -> None:
    assert authorization_server_urls(issuer) == (
        "https://id.example.com/.well-known/oauth-authorization-server",
        "https://id.example.com/.well-known/openid-configuration",
    )


@pytest.mark.parametrize("issuer", [ISSUER, ISSUER + "/"])
def test_an_issuer_with_a_path_is_asked_three_times_in_the_order_of_the_specification(issuer: str) -> None:
    assert authorization_server_urls(issuer) == (
        "https://id.example.com/.well-known/oauth-authorization-server/tenant",
        "https://id.example.com/.well-known/openid-configuration/tenant",
        "https://id.example.com/tenant/.well-known/openid-configuration",
    )


def test_the_oldest_revision_asks_the_origin_whatever_the_path() -> None:
    assert origin_urls("https://api.example.com/v1/mcp") == (
        ("https://api.example.com/.well-known/oauth-authorization-server",),
        ("https://api.example.com", "https://api.example.com/"),
    )
    presumed = AuthorizationServerMetadata.of_origin("https://api.example.com/v1/mcp")
    assert [presumed.endpoint(f"{name}_endpoint") for name in ("authorization", "token", "registration")] == [
        "https://api.example.com/authorize",
        "https://api.example.com/token",
        "https://api.example.com/register",
    ]
    presumed.check_pkce()
    with pytest.raises(MetadataError, match="not encrypted"):
        AuthorizationServerMetadata.of_origin("http://api.example.com/v1/mcp")


def resource(**changes: object) -> dict[str, object]:
    return {"resource": "https://a.example/mcp", "authorization_servers": [ISSUER], **changes}


def test_what_a_resource_says_is_read() -> None:
    read = ResourceMetadata.read(resource(scopes_supported=["a", "b"]), "https://a.example/mcp")
    assert (read.resource, read.authorization_servers, read.scopes) == (
        "https://a.example/mcp",
        (ISSUER,),
        ("a", "b"),
    )
    assert ResourceMetadata.read(resource(), "https://a.example/mcp").scopes is None


@pytest.mark.parametrize(
    ("document", "wrong"),
    [
        ([], "no JSON object"),
        (resource(resource=None), "does not say which resource"),
        (resource(resource="https://evil.example/mcp"), "another resource, 'https://evil.example/mcp'"),
        (resource(resource="urn:a"), "another resource"),
        (resource(resource="https://a.example/mcp#x"), "another resource"),
        (resource(authorization_servers=[]), "names no authorization server"),
        (resource(authorization_servers=None), "names no authorization server"),
        (resource(authorization_servers=ISSUER), "no list of strings"),
        (resource(authorization_servers=[1]), "no string"),
        (resource(scopes_supported="a b"), "no list of strings"),
    ],
)
def test_a_resource_that_cannot_be_used_is_refused_in_words(document: object, wrong: str) -> None:
    with pytest.raises(MetadataError, match=wrong):
        ResourceMetadata.read(document, "https://a.example/mcp")


def server(**changes: object) -> dict[str, object]:
    return {
        "issuer": ISSUER,
        "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token",
        "code_challenge_methods_supported": ["plain", "S256"],
        **changes,
    }


def test_what_an_authorization_server_says_is_read() -> None:
    read = AuthorizationServerMetadata.read(server(client_id_metadata_document_supported=True), ISSUER)
    read.check_pkce()
    assert read.endpoint("token_endpoint") == f"{ISSUER}/token"
    assert read.says("client_id_metadata_document_supported")
    assert not read.says("authorization_response_iss_parameter_supported")
    assert not read.has("registration_endpoint")
    assert read.strings("scopes_supported") is None


@pytest.mark.parametrize(
    ("issuer", "wrong"),
    [
        (None, "does not say who the issuer is"),
        ("https://honest.example", "another issuer, 'https://honest.example'"),
        (ISSUER + "/", "differ in the / at the end alone"),
        (ISSUER.upper(), "another issuer"),
    ],
)
def test_the_issuer_is_the_same_to_the_byte(issuer: object, wrong: str) -> None:
    with pytest.raises(MetadataError, match=wrong):
        AuthorizationServerMetadata.read(server(issuer=issuer), ISSUER)


def test_an_endpoint_that_is_missing_or_not_encrypted_is_refused() -> None:
    read = AuthorizationServerMetadata.read(
        server(token_endpoint="http://id.example.com/token", jwks_uri=7), ISSUER
    )
    with pytest.raises(MetadataError, match=r"token_endpoint of the authorization server .* not encrypted"):
        read.endpoint("token_endpoint")
    with pytest.raises(MetadataError, match="has no registration_endpoint"):
        read.endpoint("registration_endpoint")
    with pytest.raises(MetadataError, match=r"jwks_uri .* is no URL"):
        read.endpoint("jwks_uri")


@pytest.mark.parametrize(
    ("methods", "wrong"),
    [
        (None, "Microsoft Entra ID and Amazon Cognito"),
        (["plain"], "by 'plain' alone"),
        ([], "by nothing alone"),
    ],
)
def test_who_does_not_say_that_it_knows_pkce_is_refused(methods: object, wrong: str) -> None:
    read = AuthorizationServerMetadata.read(server(code_challenge_methods_supported=methods), ISSUER)
    with pytest.raises(MetadataError, match=wrong):
        read.check_pkce()


def test_what_a_stranger_has_written_is_shown_short_and_printable() -> None:
    with pytest.raises(MetadataError) as refused:
        AuthorizationServerMetadata.read(server(issuer="\x1b[31m" + "x" * 5000), ISSUER)
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 600
