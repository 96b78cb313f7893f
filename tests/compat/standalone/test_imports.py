"""What `fastmcp` is after `mcpkit.compat.install()`: each test is a process, as nothing else may have imported it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def said(code: str) -> list[str]:
    """Run the code in a process of its own after `install()`, and return what it prints."""
    begun = f"import mcpkit.compat\nmcpkit.compat.install()\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", begun],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_servers_import_is_ours():
    assert said("""
import fastmcp, json, sys
from fastmcp import Client, Context, FastMCP
from fastmcp.client import Client as again
from fastmcp.dependencies import CurrentContext, Depends
from fastmcp.exceptions import ClientError, McpError, NotFoundError, PromptError, ResourceError, ToolError
from fastmcp.exceptions import ValidationError
from fastmcp.prompts import Message, Prompt, PromptResult
from fastmcp.prompts.prompt import Message as of_2, PromptMessage, TextContent
from fastmcp.resources import DirectoryResource, FileResource, HttpResource, Resource, ResourceContent, ResourceResult
from fastmcp.resources import TextResource
from fastmcp.server import Context as of_server
from fastmcp.server.context import Context as of_context
from fastmcp.server.dependencies import get_access_token, get_context, get_http_headers, get_http_request
from fastmcp.server.elicitation import AcceptedElicitation, CancelledElicitation, DeclinedElicitation
from fastmcp.server.server import FastMCP as of_server_server
from fastmcp.tools import FunctionTool, Tool, ToolResult
from fastmcp.tools.tool import Tool as tool_of_2, ToolResult as result_of_2
from fastmcp.utilities.logging import configure_logging, get_logger
from fastmcp.utilities.types import Audio, File, Image
assert Context is of_server is of_context and FastMCP is of_server_server and Client is again
assert Tool is tool_of_2 and ToolResult is result_of_2 and Message is of_2
assert fastmcp.settings.port == 8000 and fastmcp.__version__.startswith("4.")
kinds = (Client, Context, FastMCP, ToolError, Tool, Image)
print(json.dumps(sorted({each.__module__.partition(".")[0] for each in kinds})))
assert not {"uvicorn", "starlette", "httpx", "jsonschema"} & sys.modules.keys()
""") == ['["mcpkit"]']


@pytest.mark.parametrize(
    ("statement", "cure"),
    [
        ("from fastmcp.server.middleware import Middleware", "@server.middleware"),
        ("from fastmcp.server.auth import BearerAuthProvider", "Server(auth=...)"),
        ("from fastmcp.server.openapi import RouteMap", "HTTP client"),
        ("from fastmcp.server.proxy import ProxyClient", "mcpkit.Client"),
        ("from fastmcp.client.transports import StdioTransport", "mcpkit.Client"),
        ("from fastmcp.contrib.mcp_mixin import MCPMixin", "decorators"),
        ("from fastmcp import nonsense", "constructor, decorators"),
        ("import fastmcp; fastmcp.FastMCPApp()", "constructor, decorators"),
        ("from fastmcp.resources import HttpResource; HttpResource()", "@mcp.resource(uri)"),
        ("from fastmcp.tools import tool; tool(print)", "decorators"),
        ("import fastmcp_tasks", "task=True"),
        ("from fastmcp_tasks.client import ToolTask", "task=True"),
    ],
)
def test_all_else_is_refused_with_its_cure(statement, cure):
    told = json.dumps(cure)
    [text] = said(f"""
try:
    {statement}
except (ImportError, NotImplementedError) as error:
    print({told} in str(error) and "fastmcp" in str(error), str(error)[:0])
""")
    assert text.strip() == "True"
