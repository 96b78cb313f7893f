import json
import subprocess
from pathlib import Path

import pytest

from mcpkit.compat.shared import McpError, UrlElicitationRequiredError, differs
from mcpkit.compat.tool_names import validate_and_warn_tool_name
from mcpkit.compat.types import ElicitRequestURLParams, ErrorData

from .names import said_of

PYTHON = Path(__file__).parents[3] / ".servers" / "mcp1" / "bin" / "python"
NAMES = [
    "add",
    "a.b-c_D9",
    "",
    "x" * 129,
    "two words",
    "a,b",
    "-a",
    "a-",
    ".a",
    "a.",
    "größe/ß ,",
    "a\n",
    "é" * 3,
]
PAGE = ElicitRequestURLParams(message="Log in.", url="https://example.org", elicitationId="1")


def test_names_of_tools_are_judged_as_mcp_1_does(caplog):
    if not PYTHON.exists():
        pytest.skip("mcp 1.x is not installed here: `make setup` puts it into .servers")
    script = str(Path(__file__).with_name("names.py"))
    done = subprocess.run(
        [PYTHON, script], input=json.dumps(NAMES), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(json.dumps(said_of(NAMES, validate_and_warn_tool_name))) == json.loads(done.stdout)


def test_an_error_of_the_protocol_has_its_text():
    error = McpError(ErrorData(code=-32602, message="No such city.", data={"city": "x"}))
    assert str(error) == "No such city."
    assert error.error.code == -32602


def test_pages_that_have_to_be_visited_first():
    error = UrlElicitationRequiredError([PAGE])
    assert error.error.code == -32042
    assert str(error) == "URL elicitation required"
    again = UrlElicitationRequiredError.from_error(error.error)
    assert again.elicitations == [PAGE]
    assert str(UrlElicitationRequiredError([PAGE, PAGE])) == "URL elicitations required"
    assert str(UrlElicitationRequiredError([PAGE], "Log in first.")) == "Log in first."
    with pytest.raises(ValueError, match="Expected error code -32042, got -32602"):
        UrlElicitationRequiredError.from_error(ErrorData(code=-32602, message=""))


def test_a_difference_is_warned_of_once(caplog):
    differs("tests: size", "Sizes are rounded up here.")
    differs("tests: size", "Sizes are rounded up here.")
    differs("tests: color", "Colors are names here.")
    assert [(each.name, each.levelname, each.getMessage()) for each in caplog.records] == [
        ("mcpkit.compat", "WARNING", "Sizes are rounded up here."),
        ("mcpkit.compat", "WARNING", "Colors are names here."),
    ]
