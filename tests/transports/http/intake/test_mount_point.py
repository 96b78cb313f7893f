"""Where the app is mounted, from what servers and frameworks say."""

from __future__ import annotations

import pytest

from mcpkit.transports.http.intake.mounting import mount_point, path_below


def request(path: str, raw_path: str | None = None, **more: str) -> dict[str, object]:
    raw = {} if raw_path is None else {"raw_path": raw_path.encode()}
    return {"type": "http", "path": path, **raw, **more}


@pytest.mark.parametrize(
    ("scope", "point", "below"),
    [
        (request("/mcp"), "", "/mcp"),
        (request("/mcp", root_path=""), "", "/mcp"),
        (request("/mcp", "/mcp", root_path="/"), "", "/mcp"),
        (request("/", "/", root_path=""), "", "/"),
        (request("/a/mcp", "/a/mcp", root_path="/a"), "/a", "/mcp"),
        (request("/a/mcp", root_path="/a"), "/a", "/mcp"),
        (request("/a/mcp/", "/a/mcp/", root_path="/a/"), "/a", "/mcp/"),
        (request("/mcp", "/a/mcp", root_path="/a"), "/a", "/mcp"),
        (request("/mcp", "/mcp", root_path="/proxy"), "/proxy", "/mcp"),
        (request("/a", "/a", root_path="/a"), "/a", "/"),
        (request("/a/", "/a/", root_path="/a"), "/a", "/"),
        (request("/abc/mcp", "/abc/mcp", root_path="/a"), "/a", "/abc/mcp"),
        (request("/x/mcp", "/x/mcp", root_path="/proxy/x", app_root_path="/proxy"), "/proxy/x", "/mcp"),
        (request("/mcp/", "/x/mcp", root_path=""), "/x", "/mcp/"),
        (request("/mcp/", "/proxy/x/mcp", root_path="/proxy"), "/proxy/x", "/mcp/"),
        (request("/", "/x", root_path=""), "/x", "/"),
        (request("/ü b/mcp", "/%C3%BC%20b/mcp", root_path="/ü b"), "/ü b", "/mcp"),
        (request("/mcp/", "//mcp", root_path=""), "", "/mcp/"),
    ],
)
def test_the_mount_point_is_found(scope, point, below):
    assert (mount_point(scope), path_below(scope)) == (point, below)
