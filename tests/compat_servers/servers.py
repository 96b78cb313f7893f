"""The published servers that are compared, and what is requested of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Calls = Sequence[tuple[str, Mapping[str, Any]]]


BOOK = "{work}/book.xlsx"


SHEET = {"filepath": BOOK, "sheet_name": "Sheet1"}


REPOSITORY = {"repo_path": "{work}/repository"}


EXCEL: Calls = [
    ("create_workbook", {"filepath": BOOK}),
    ("write_data_to_excel", SHEET | {"data": [["name", "count"], ["ada", 1], ["grace", 2.5], [None, True]]}),
    ("read_data_from_excel", SHEET),
    ("read_data_from_excel", SHEET | {"start_cell": "A1", "end_cell": "B2", "preview_only": "true"}),
    ("apply_formula", SHEET | {"cell": "C1", "formula": "=SUM(B2:B3)"}),
    ("format_range", SHEET | {"start_cell": "A1", "end_cell": "B1", "bold": True, "font_size": "14"}),
    ("get_workbook_metadata", {"filepath": "{work}/none.xlsx"}),
]


PLACE = {"left": 1, "top": 1, "width": 4, "height": 3}
SERIES = {"categories": ["a", "b"], "series_names": ["s"], "series_values": [[1, 2]]}
POWERPOINT: Calls = [
    ("create_presentation", {"id": "one"}),
    ("add_slide", {"layout_index": 0, "title": "A slide", "presentation_id": "one"}),
    ("add_table", {"slide_index": 0, "rows": 2, "cols": 2, "data": [["a", "b"], ["c", "d"]]}),
    ("add_chart", {"slide_index": 0, "chart_type": "column", **PLACE, **SERIES}),
    ("get_slide_info", {"slide_index": 0}),
    ("get_slide_info", {"slide_index": 99}),
]


TREE_SITTER: Calls = [
    ("register_project_tool", {"path": "{work}/project", "name": "sample", "description": "Two files"}),
    ("list_files", {"project": "sample", "extensions": ["py"]}),
    ("get_file", {"project": "sample", "path": "sample.py", "max_lines": 5}),
    ("get_symbols", {"project": "sample", "file_path": "sample.py", "symbol_types": ["functions"]}),
    ("analyze_complexity", {"project": "sample", "file_path": "sample.py"}),
    ("get_file", {"project": "nothing", "path": "sample.py"}),
]


INTERPRETER: Calls = [
    ("run_python_code", {"code": "print(6 * 7)"}),
    ("run_python_code", {"code": "value = 20", "session_id": "one"}),
    ("run_python_code", {"code": "print(value + 1)\n1 / 0", "session_id": "one"}),
    ("list_directory", {"directory_path": ""}),
]


GIT: Calls = [
    ("git_status", REPOSITORY),
    ("git_add", REPOSITORY | {"files": ["new.txt"]}),
    ("git_commit", REPOSITORY | {"message": "Add a file"}),
    ("git_branch", REPOSITORY | {"branch_type": "of another planet"}),
    ("git_status", {"repo_path": "{work}/none"}),
]


SQLITE: Calls = [
    ("create_table", {"query": "CREATE TABLE people (name TEXT, born INTEGER)"}),
    ("write_query", {"query": "INSERT INTO people VALUES ('Ada', 1815), ('Grace', 1906)"}),
    ("read_query", {"query": "SELECT * FROM people"}),
    ("append_insight", {"insight": "Both wrote programs."}),
    ("read_query", {"query": "DELETE FROM people"}),
]


TIME: Calls = [
    ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
    ("get_current_time", {"timezone": "Europe/Paris"}),
    ("get_current_time", {"timezone": "Mars/Olympus"}),
    ("convert_time", {"source_timezone": "UTC", "time": "noon", "target_timezone": "Asia/Tokyo"}),
]


CODE_INDEX: Calls = [
    ("get_settings_info", {}),
    ("set_project_path", {"path": "{work}/project"}),
    ("search_code_advanced", {"pattern": "def", "context_lines": "1"}),
    ("get_file_summary", {"file_path": "sample.py"}),
    ("set_project_path", {"path": "{work}/none"}),
]


WORD: Calls = [
    ("create_document", {"filename": "{work}/text.docx", "title": "A text", "author": "Ada"}),
    ("add_paragraph", {"filename": "{work}/text.docx", "text": "The first paragraph."}),
    ("get_document_text", {"filename": "{work}/text.docx"}),
    ("get_document_text", {"filename": "{work}/none.docx"}),
]


ROOT_FOLDER = Path(__file__).parents[2]


INSTALLED = ROOT_FOLDER / ".compat"


LOW_LEVEL = "`mcp.server`"


@dataclass(frozen=True)
class Server:
    """A server.

    Attributes:
        name: Its package; `requirements/` pins the versions of it and of all that it needs.
        chosen_for: What it stands for.
        calls: Tools and their arguments, in the order in which they are called: `{work}` is the folder of the server.
        kind: The library that it imports.
        command: A script of its environment, and arguments; by default its name.
        reads: URIs beside those that are listed.
        prompts: Arguments of prompts, where made-up ones say little.
        left_alone: Tools that are not called with made-up arguments: they would install something, or wait.
        settings: Environment variables.
        http: The arguments of a server over HTTP with `{port}`; empty if it has none.
        path: Its path over HTTP.
        http_settings: Further environment variables over HTTP.
        is_held_out: It ran under mcpkit only once the layer was complete.
        without_library: It runs under mcpkit where `mcp` is not installed, too.
        differs: Reasons of differences, by a regular expression for request and place.
    """

    name: str
    chosen_for: str
    calls: Calls = ()
    kind: str = "`mcp.server.fastmcp`"
    command: str = ""
    reads: Sequence[str] = ()
    prompts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    left_alone: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    http: str = ""
    path: str = "/mcp"
    http_settings: Mapping[str, str] = field(default_factory=dict)
    is_held_out: bool = False
    without_library: bool = False
    differs: Mapping[str, str] = field(default_factory=dict)


DIFFERS = {
    r"error\..*(-32602|Invalid request parameters\"|\"\") / (-32601|\"Method not found.*|\"\(absent\))": (
        "A method that the server does not have: `mcp` 1.x says that its parameters are wrong (-32602), mcpkit that "
        "there is no such method (-32601), as JSON-RPC has it."
    ),
    r'error.*: ("Method not found" / "Method not found: |"(resources/subscribe|no/such)" / )': (
        "There is no such method, says mcpkit in a message that has its name."
    ),
}


"""What is otherwise with every server, and why."""


FASTMCP_4 = {
    r"^(initialize|tools/list|no such (tool|prompt)|read what is not there|logging/setLevel|prompt with nothing)": (
        "`mcpkit.compat` shows what `fastmcp` 4 shows. This server has `fastmcp` 2 or 3, which differ from it: in "
        "capabilities, `_meta`, titles and descriptions, the codes and texts of errors, and their own version."
    ),
    r"^read resource://telemetry": "The server lists its tools by how long they took.",
}


BIOMCP: Calls = [
    ("think", {"thought": "First", "thoughtNumber": 1, "totalThoughts": "2", "nextThoughtNeeded": True})
]

MARKITDOWN: Calls = [
    ("convert_to_markdown", {"uri": "file://{work}/page.html"}),
    ("convert_to_markdown", {"uri": "data:text/html,<h1>Title</h1><p>Text</p>"}),
    ("convert_to_markdown", {"uri": "data:text/csv,a,b%0A1,2"}),
    ("convert_to_markdown", {"uri": "file://{work}/none.html"}),
]

ALCHEMY: Calls = [
    ("execute_query", {"query": "CREATE TABLE people (name TEXT, born INTEGER)"}),
    ("execute_query", {"query": "INSERT INTO people VALUES (:n, :b)", "params": {"n": "Ada", "b": 1815}}),
    ("execute_query", {"query": "SELECT * FROM people"}),
    ("schema_definitions", {"table_names": '["people"]'}),
    ("execute_query", {"query": "SELECT * FROM nothing"}),
]

UNITS: Calls = [("convert_temperature", {"value": "37.5", "from_unit": "celsius", "to_unit": "fahrenheit"})]

NO_TRACKING = {"DO_NOT_TRACK": "1", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
AWS = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_MAX_ATTEMPTS": "1"}


SERVERS = [
    Server(
        "databricks-mcp-server",
        "subclasses FastMCP; more than 20 tools",
        [("list_clusters", {}), ("execute_sql", {"statement": "SELECT 1"})],
        reads=["resource://databricks/exports/none"],
        settings={"DATABRICKS_HOST": "https://127.0.0.1:9", "DATABRICKS_TOKEN": "none"},
    ),
    Server(
        "mcp-email-server",
        "subclasses FastMCP and overrides `list_tools`; more than 20 tools; HTTP",
        [("list_available_accounts", {}), ("list_emails_metadata", {"account_name": "nobody", "page": "1"})],
        command="mcp-email-server stdio",
        reads=["email://nobody"],
        http="streamable-http --port {port}",
    ),
    Server(
        "dbt-mcp",
        "subclasses FastMCP and overrides `call_tool`; more than 20 tools",
        [("get_lineage", {"unique_id": "model.a.b"}), ("list_jobs", {"limit": "3"})],
        settings={"DBT_HOST": "127.0.0.1:9", "DBT_PROD_ENV_ID": "1", **NO_TRACKING, "DBT_TOKEN": "none"},
    ),
    Server(
        "jupyter-mcp-server",
        "subclasses FastMCP and overrides `streamable_http_app` and `sse_app`",
        [("list_notebooks", {}), ("read_cell", {"cell_index": "0"})],
        prompts={"jupyter_cite": {"cell_indices": "0-2"}},
        left_alone=["execute_code", "connect_to_jupyter", "list_files", "list_kernels", "use_notebook"],
        http="start --transport streamable-http --port {port}",
    ),
    Server(
        "excel-mcp-server",
        "more than 20 tools; HTTP",
        EXCEL,
        command="excel-mcp-server stdio",
        http="streamable-http",
        http_settings={"FASTMCP_PORT": "{port}", "EXCEL_FILES_PATH": "{work}"},
    ),
    Server("office-powerpoint-mcp-server", "more than 20 tools", POWERPOINT, command="ppt_mcp_server"),
    Server(
        "redis-mcp-server",
        "more than 50 tools",
        [("get", {"key": "a"}), ("lrange", {"name": "a", "start": "0", "stop": 1.0})],
        command="redis-mcp-server --url redis://127.0.0.1:9/0",
        left_alone=["read_messages"],
    ),
    Server(
        "mcp-server-tree-sitter",
        "more than 20 tools; prompts",
        TREE_SITTER,
        prompts={"code_review": {"project": "sample", "file_path": "sample.py"}},
    ),
    Server(
        "biomcp-python",
        "more than 20 tools; resources; an HTTP app of its own",
        BIOMCP,
        command="biomcp run",
        http="run --mode streamable_http --host 127.0.0.1 --port {port}",
    ),
    Server(
        "code-index-mcp",
        "a lifespan; looks into the tool manager; HTTP",
        CODE_INDEX,
        reads=["files://sample.py", "files://none.py"],
        left_alone=["configure_file_watcher"],
        http="--transport streamable-http --port {port}",
    ),
    Server(
        "mcp-python-interpreter",
        "resources, templates and prompts",
        INTERPRETER,
        command="mcp-python-interpreter --dir {work}/project",
        reads=["python://packages/default", "python://session/one/history", "python://packages/none"],
        left_alone=["install_package"],
    ),
    Server(
        "duckduckgo-mcp-server",
        "HTTP",
        [("fetch_content", {"url": "http://127.0.0.1:9/"})],
        left_alone=["search"],
        http="--transport streamable-http --port {port}",
    ),
    Server(
        "markitdown-mcp",
        "serves its low-level server with StreamableHTTPSessionManager and SseServerTransport",
        MARKITDOWN,
        http="--http --port {port}",
        path="/mcp/",
    ),
    Server(
        "mcp-alchemy",
        "a database; a description that is made at start",
        ALCHEMY,
        settings={"DB_URL": "sqlite:///{work}/made.db"},
    ),
    Server(
        "mcp-server-time", "low-level", TIME, kind=LOW_LEVEL, command="mcp-server-time --local-timezone UTC"
    ),
    Server("mcp-server-git", "low-level", GIT, kind=LOW_LEVEL),
    Server(
        "mcp-server-fetch",
        "low-level; prompts",
        [("fetch", {"url": "http://127.0.0.1:9/page", "max_length": 100})],
        kind=LOW_LEVEL,
        prompts={"fetch": {"url": "http://127.0.0.1:9/"}},
    ),
    Server(
        "mcp-server-sqlite",
        "low-level; resources and prompts; notifications",
        SQLITE,
        kind=LOW_LEVEL,
        command="mcp-server-sqlite --db-path {work}/made.db",
        reads=["memo://none"],
        prompts={"mcp-demo": {"topic": "trains"}},
        without_library=True,
    ),
    Server(
        "blender-mcp",
        "more than 20 tools; prompts; a lifespan",
        [("get_scene_info", {"user_prompt": "what is there"})],
        settings={"BLENDER_PORT": "9", "DISABLE_TELEMETRY": "true"},
        is_held_out=True,
    ),
    Server(
        "arxiv-mcp-server",
        "low-level; prompts",
        [("list_papers", {})],
        kind=LOW_LEVEL,
        command="arxiv-mcp-server --storage-path {work}/papers",
        is_held_out=True,
    ),
    Server(
        "awslabs-iam-mcp-server",
        "more than 20 tools",
        [("get_user", {"user_name": "nobody"})],
        command="awslabs.iam-mcp-server",
        settings={"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", **AWS},
        is_held_out=True,
    ),
    Server(
        "astrodynamics-mcp",
        "FastMCP and low-level mixed",
        command="astrodynamics-mcp stdio",
        http="http --port {port}",
        is_held_out=True,
    ),
    Server("unit-converter-mcp", "`fastmcp`", UNITS, kind="`fastmcp` 2", differs=FASTMCP_4),
    Server(
        "office-word-mcp-server",
        "`fastmcp`; more than 50 tools",
        WORD,
        kind="`fastmcp` 4",
        command="word_mcp_server",
    ),
    Server(
        "fastmcp-sample-server",
        "`fastmcp`; resources and prompts",
        kind="`fastmcp` 3",
        command="sample-mcp-server --transport stdio",
        differs=FASTMCP_4,
    ),
    Server("clinical-calc-mcp", "`fastmcp`", kind="`fastmcp` 4"),
]
