"""URLs that clients and verifiers may use, and the metadata found there."""

import pytest

from mcpkit.auth.urls_and_discovery import (
    AuthorizationServerMetadata,
    MetadataError,
    ResourceMetadata,
    authorization_server_urls,
    check_url,
    covers,
    protected_resource_urls,
)
from tests.helpers.tables import each_row

ISSUER = "https://id.example.com/tenant"


RESOURCE = "https://mcp.example.com/.well-known/oauth-protected-resource"


@each_row(("url", "expected"), [
    ("https://mcp.example.com", [RESOURCE]),
    ("https://mcp.example.com/", [RESOURCE]),
    ("https://mcp.example.com/public/mcp", [f"{RESOURCE}/public/mcp", RESOURCE]),
    ("HTTPS://user:secret@MCP.example.com:443/mcp?team=1#top", [f"{RESOURCE}/mcp?team=1", RESOURCE]),
])  # fmt: skip
def test_protected_resource_urls_are_path_then_root(url, expected):
    assert list(protected_resource_urls(url)) == expected


@each_row("issuer", [ISSUER, ISSUER + "/"])
def test_authorization_server_urls_with_path_follow_specification_order(issuer):
    assert authorization_server_urls(issuer) == (
        "https://id.example.com/.well-known/oauth-authorization-server/tenant",
        "https://id.example.com/.well-known/openid-configuration/tenant",
        "https://id.example.com/tenant/.well-known/openid-configuration",
    )


def resource(**changes: object) -> dict[str, object]:
    return {"resource": "https://a.example/mcp", "authorization_servers": [ISSUER], **changes}


def test_resource_metadata_is_read():
    url = "https://a.example/mcp"
    read = ResourceMetadata.read(resource(scopes_supported=["a", "b"]), url)
    assert (read.resource, read.authorization_servers, read.scopes) == (url, (ISSUER,), ("a", "b"))
    assert ResourceMetadata.read(resource(), url).scopes is None


@each_row(("document", "wrong"), [
    ([], "JSON object"),
    (resource(resource=None), "has no `resource` string"),
    (resource(resource="https://evil.example/mcp"), "another `resource`, 'https://evil.example/mcp'"),
    *((resource(resource=url), "another `resource`") for url in ("urn:a", "https://a.example/mcp#x")),
    *((resource(authorization_servers=value), "has no `authorization_servers`") for value in ([], None)),
    (resource(authorization_servers=ISSUER), "not a list of strings"),
    (resource(authorization_servers=[1]), "not a string"),
    (resource(scopes_supported="a b"), "not a list of strings"),
])  # fmt: skip
def test_resource_metadata_invalid_raises(document, wrong):
    with pytest.raises(MetadataError, match=wrong):
        ResourceMetadata.read(document, "https://a.example/mcp")


def server(**changes: object) -> dict[str, object]:
    return {
        "issuer": ISSUER, "authorization_endpoint": f"{ISSUER}/authorize",
        "token_endpoint": f"{ISSUER}/token", "code_challenge_methods_supported": ["plain", "S256"], **changes,
    }  # fmt: skip


def test_server_metadata_is_read():
    read = AuthorizationServerMetadata.read(server(client_id_metadata_document_supported=True), ISSUER)
    read.check_pkce()
    assert read.endpoint("token_endpoint") == f"{ISSUER}/token"
    assert read.is_true("client_id_metadata_document_supported")
    assert not read.is_true("authorization_response_iss_parameter_supported")
    assert not read.has("registration_endpoint")
    assert read.strings("scopes_supported") is None


@each_row(("issuer", "wrong"), [
    (None, "has no `issuer` string"),
    ("https://honest.example", "another `issuer`, 'https://honest.example'"),
    (ISSUER + "/", "differ only in the trailing slash"),
    (ISSUER.upper(), "another `issuer`"),
])  # fmt: skip
def test_server_metadata_issuer_must_match_exactly(issuer, wrong):
    with pytest.raises(MetadataError, match=wrong):
        AuthorizationServerMetadata.read(server(issuer=issuer), ISSUER)


def test_server_metadata_endpoint_missing_or_plain_raises():
    document = server(token_endpoint="http://id.example.com/token", jwks_uri=7)
    read = AuthorizationServerMetadata.read(document, ISSUER)
    with pytest.raises(MetadataError, match=r"token_endpoint of the authorization server .* not encrypted"):
        read.endpoint("token_endpoint")
    with pytest.raises(MetadataError, match="has no registration_endpoint"):
        read.endpoint("registration_endpoint")
    with pytest.raises(MetadataError, match=r"jwks_uri .* must be a string"):
        read.endpoint("jwks_uri")


@each_row(("methods", "wrong"), [
    (None, "Microsoft Entra ID and Amazon Cognito"),
    (["plain"], "its metadata lists 'plain'"),
    ([], "its metadata lists no method"),
])  # fmt: skip
def test_server_metadata_without_pkce_raises(methods, wrong):
    read = AuthorizationServerMetadata.read(server(code_challenge_methods_supported=methods), ISSUER)
    with pytest.raises(MetadataError, match=wrong):
        read.check_pkce()


@each_row(("url", "wrong"), [
    (None, "the endpoint must be a string"),
    ("http://id.example.com/token", "not encrypted"),
    *((url, "not a valid https URL") for url in (
        "javascript:alert(1)", "file:///etc/passwd", "https://", "https://id.example.com:99999/",
        "https://id.example.com/a b", "https://id.example.com/\n", "https://[bad/",
        "https://a..example/", "https://.example/", f"https://{'a' * 64}.example/",
    )),
    ("https://id.example.com/#x", "fragment"),
    ("https://id.example.com/#", "fragment"),
])  # fmt: skip
def test_check_url_rejects_unsafe_urls(url, wrong):
    with pytest.raises(MetadataError, match=wrong):
        check_url(url, "the endpoint")


def test_check_url_password_is_not_quoted():
    with pytest.raises(MetadataError) as caught:
        check_url("https://user:hunter2@id.example.com/", "the endpoint")
    assert "hunter2" not in str(caught.value)


@each_row(("resource", "url", "expected"), [
    *((resource, "https://a.example/mcp", True) for resource in (
        "https://a.example/mcp", "https://A.example/mcp/", "https://a.example", "https://a.example/",
    )),
    ("https://a.example/mcp", "https://a.example/mcp?team=1", True),
    *((resource, "https://a.example/mcp", False) for resource in (
        "https://a.example/mc", "https://a.example/other", "https://b.example/mcp",
        "http://a.example/mcp", "https://a.example:8443/mcp", "https://a.example/mcp?team=1",
    )),
    ("https://a.example/mcp", "https://a.example/mc", False),
])  # fmt: skip
def test_covers_resource_url_and_paths_below(resource, url, expected):
    assert covers(resource, url) is expected
