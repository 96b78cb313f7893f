"""The published servers that are compared, and what is requested of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.compat_servers.peers import Kit

Calls = list[tuple[str, Mapping[str, Any]]]


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
    ("insert_rows", SHEET | {"start_row": 2, "count": "2"}),
    ("get_workbook_metadata", {"filepath": BOOK, "include_ranges": True}),
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
    ("extract_presentation_text", {}),
    ("list_presentations", {}),
    ("get_server_info", {}),
    ("get_slide_info", {"slide_index": 99}),
]


TREE_SITTER: Calls = [
    ("register_project_tool", {"path": "{work}/project", "name": "sample", "description": "Two files"}),
    ("list_projects_tool", {}),
    ("list_files", {"project": "sample", "extensions": ["py"]}),
    ("get_file", {"project": "sample", "path": "sample.py", "max_lines": 5}),
    ("get_ast", {"project": "sample", "path": "sample.py", "max_depth": 2}),
    ("get_symbols", {"project": "sample", "file_path": "sample.py", "symbol_types": ["functions"]}),
    ("analyze_complexity", {"project": "sample", "file_path": "sample.py"}),
    ("get_file", {"project": "nothing", "path": "sample.py"}),
]


INTERPRETER: Calls = [
    ("run_python_code", {"code": "print(6 * 7)"}),
    ("run_python_code", {"code": "value = 20", "session_id": "one"}),
    ("run_python_code", {"code": "print(value + 1)\n1 / 0", "session_id": "one"}),
    ("list_directory", {"directory_path": ""}),
    ("clear_session", {"session_id": "one"}),
]


GIT: Calls = [
    ("git_status", REPOSITORY),
    ("git_log", REPOSITORY | {"max_count": 1}),
    ("git_add", REPOSITORY | {"files": ["new.txt"]}),
    ("git_commit", REPOSITORY | {"message": "Add a file"}),
    ("git_show", REPOSITORY | {"revision": "HEAD"}),
    ("git_branch", REPOSITORY | {"branch_type": "of another planet"}),
    ("git_status", {"repo_path": "{work}/none"}),
]


SQLITE: Calls = [
    ("create_table", {"query": "CREATE TABLE people (name TEXT, born INTEGER)"}),
    ("write_query", {"query": "INSERT INTO people VALUES ('Ada', 1815), ('Grace', 1906)"}),
    ("read_query", {"query": "SELECT * FROM people"}),
    ("list_tables", {}),
    ("append_insight", {"insight": "Both wrote programs."}),
    ("read_query", {"query": "DELETE FROM people"}),
    ("write_query", {"query": "INSERT INTO nothing VALUES (1)"}),
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
    ("build_deep_index", {}),
    ("get_file_summary", {"file_path": "sample.py"}),
    ("get_file_watcher_status", {}),
    ("set_project_path", {"path": "{work}/none"}),
]


WORD: Calls = [
    ("create_document", {"filename": "{work}/text.docx", "title": "A text", "author": "Ada"}),
    ("add_heading", {"filename": "{work}/text.docx", "text": "One", "level": "1"}),
    ("add_paragraph", {"filename": "{work}/text.docx", "text": "The first paragraph."}),
    ("get_document_text", {"filename": "{work}/text.docx"}),
    ("get_document_text", {"filename": "{work}/none.docx"}),
]


ROOT_FOLDER = Path(__file__).parents[2]


INSTALLED = ROOT_FOLDER / ".compat"


FASTMCP_1 = "`mcp.server.fastmcp`"


LOW_LEVEL = "`mcp.server`"


@dataclass(frozen=True)
class Server:
    """A server.

    Attributes:
        name: Its package, whose version `requirements/` pins with all that it needs.
        kind: The library that it imports.
        command: A script of its environment, and arguments: `{work}` is its folder.
        kit: The requests that its lists do not tell.
        chosen_for: What it stands for.
        settings: Environment variables.
        http: The arguments of a server over HTTP with `{port}`; empty if it has none.
        path: Where it serves over HTTP.
        http_settings: Further environment variables over HTTP.
        is_held_out: It ran under mcpkit only once the layer was complete.
        without_library: It runs under mcpkit where `mcp` is not installed, too.
        differs: What is otherwise than under its library and why, by a regular expression for request and place.
    """

    name: str
    kind: str
    command: str
    kit: Kit
    chosen_for: str
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


SERVERS = [
    Server(
        "databricks-mcp-server",
        FASTMCP_1,
        "databricks-mcp-server",
        Kit(
            [
                ("list_clusters", {}),
                ("get_cluster", {"cluster_id": "a"}),
                ("execute_sql", {"statement": "SELECT 1"}),
            ],
            reads=["resource://databricks/exports/none"],
        ),
        "subclasses FastMCP; more than 20 tools",
        {"DATABRICKS_HOST": "https://127.0.0.1:9", "DATABRICKS_TOKEN": "none"},
    ),
    Server(
        "mcp-email-server",
        FASTMCP_1,
        "mcp-email-server stdio",
        Kit(
            [
                ("list_available_accounts", {}),
                ("list_allowed_recipients", {}),
                ("list_emails_metadata", {"account_name": "nobody", "page": "1"}),
                ("email_command", {"operation": "help"}),
            ],
            reads=["email://nobody"],
        ),
        "subclasses FastMCP and overrides `list_tools`; more than 20 tools; HTTP",
        http="streamable-http --port {port}",
    ),
    Server(
        "dbt-mcp",
        FASTMCP_1,
        "dbt-mcp",
        Kit([("get_lineage", {"unique_id": "model.a.b"}), ("list_jobs", {"limit": "3"})]),
        "subclasses FastMCP and overrides `call_tool`; more than 20 tools",
        {
            "DBT_HOST": "127.0.0.1:9",
            "DBT_TOKEN": "none",
            "DBT_PROD_ENV_ID": "1",
            "DO_NOT_TRACK": "1",
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        },
    ),
    Server(
        "jupyter-mcp-server",
        FASTMCP_1,
        "jupyter-mcp-server",
        Kit(
            [("list_notebooks", {}), ("read_cell", {"cell_index": "0"})],
            prompts={"jupyter_cite": {"cell_indices": "0-2"}},
            left_alone=["execute_code", "connect_to_jupyter", "list_files", "list_kernels", "use_notebook"],
        ),
        "subclasses FastMCP and overrides `streamable_http_app` and `sse_app`",
        http="start --transport streamable-http --port {port}",
    ),
    Server(
        "excel-mcp-server",
        FASTMCP_1,
        "excel-mcp-server stdio",
        Kit(EXCEL),
        "more than 20 tools; HTTP",
        http="streamable-http",
        http_settings={"FASTMCP_PORT": "{port}", "EXCEL_FILES_PATH": "{work}"},
    ),
    Server(
        "office-powerpoint-mcp-server", FASTMCP_1, "ppt_mcp_server", Kit(POWERPOINT), "more than 20 tools"
    ),
    Server(
        "redis-mcp-server",
        FASTMCP_1,
        "redis-mcp-server --url redis://127.0.0.1:9/0",
        Kit(
            [("get", {"key": "a"}), ("lrange", {"name": "a", "start": "0", "stop": 1.0})],
            left_alone=["read_messages"],
        ),
        "more than 50 tools",
    ),
    Server(
        "mcp-server-tree-sitter",
        FASTMCP_1,
        "mcp-server-tree-sitter",
        Kit(TREE_SITTER, prompts={"code_review": {"project": "sample", "file_path": "sample.py"}}),
        "more than 20 tools; prompts",
    ),
    Server(
        "biomcp-python",
        FASTMCP_1,
        "biomcp run",
        Kit(
            [
                (
                    "think",
                    {"thought": "First", "thoughtNumber": 1, "totalThoughts": "2", "nextThoughtNeeded": True},
                )
            ]
        ),
        "more than 20 tools; resources; an HTTP app of its own",
        http="run --mode streamable_http --host 127.0.0.1 --port {port}",
    ),
    Server(
        "code-index-mcp",
        FASTMCP_1,
        "code-index-mcp",
        Kit(
            CODE_INDEX, reads=["files://sample.py", "files://none.py"], left_alone=["configure_file_watcher"]
        ),
        "a lifespan; looks into the tool manager; HTTP",
        http="--transport streamable-http --port {port}",
    ),
    Server(
        "mcp-python-interpreter",
        FASTMCP_1,
        "mcp-python-interpreter --dir {work}/project",
        Kit(
            INTERPRETER,
            reads=["python://packages/default", "python://session/one/history", "python://packages/none"],
            left_alone=["install_package"],
        ),
        "resources, templates and prompts",
    ),
    Server(
        "duckduckgo-mcp-server",
        FASTMCP_1,
        "duckduckgo-mcp-server",
        Kit([("fetch_content", {"url": "http://127.0.0.1:9/"})], left_alone=["search"]),
        "HTTP",
        http="--transport streamable-http --port {port}",
    ),
    Server(
        "markitdown-mcp",
        FASTMCP_1,
        "markitdown-mcp",
        Kit(
            [
                ("convert_to_markdown", {"uri": "file://{work}/page.html"}),
                ("convert_to_markdown", {"uri": "data:text/html,<h1>Title</h1><p>Text</p>"}),
                ("convert_to_markdown", {"uri": "data:text/csv,a,b%0A1,2"}),
                ("convert_to_markdown", {"uri": "file://{work}/none.html"}),
            ]
        ),
        "serves its low-level server with StreamableHTTPSessionManager and SseServerTransport",
        http="--http --port {port}",
        path="/mcp/",
    ),
    Server(
        "mcp-alchemy",
        FASTMCP_1,
        "mcp-alchemy",
        Kit(
            [
                ("execute_query", {"query": "CREATE TABLE people (name TEXT, born INTEGER)"}),
                (
                    "execute_query",
                    {"query": "INSERT INTO people VALUES (:n, :b)", "params": {"n": "Ada", "b": 1815}},
                ),
                ("execute_query", {"query": "SELECT * FROM people"}),
                ("all_table_names", {}),
                ("filter_table_names", {"q": "peo"}),
                ("schema_definitions", {"table_names": '["people"]'}),
                ("execute_query", {"query": "SELECT * FROM nothing"}),
            ]
        ),
        "a database; a description that is made at start",
        {"DB_URL": "sqlite:///{work}/made.db"},
    ),
    Server("mcp-server-time", LOW_LEVEL, "mcp-server-time --local-timezone UTC", Kit(TIME), "low-level"),
    Server("mcp-server-git", LOW_LEVEL, "mcp-server-git", Kit(GIT), "low-level"),
    Server(
        "mcp-server-fetch",
        LOW_LEVEL,
        "mcp-server-fetch",
        Kit(
            [("fetch", {"url": "http://127.0.0.1:9/page", "max_length": 100})],
            prompts={"fetch": {"url": "http://127.0.0.1:9/"}},
        ),
        "low-level; prompts",
    ),
    Server(
        "mcp-server-sqlite",
        LOW_LEVEL,
        "mcp-server-sqlite --db-path {work}/made.db",
        Kit(SQLITE, reads=["memo://none"], prompts={"mcp-demo": {"topic": "trains"}}),
        "low-level; resources and prompts; notifications",
        without_library=True,
    ),
    Server(
        "blender-mcp",
        FASTMCP_1,
        "blender-mcp",
        Kit([("get_scene_info", {"user_prompt": "what is there"})]),
        "more than 20 tools; prompts; a lifespan",
        {"BLENDER_PORT": "9", "DISABLE_TELEMETRY": "true"},
        is_held_out=True,
    ),
    Server(
        "arxiv-mcp-server",
        LOW_LEVEL,
        "arxiv-mcp-server --storage-path {work}/papers",
        Kit([("list_papers", {})]),
        "low-level; prompts",
        is_held_out=True,
    ),
    Server(
        "awslabs-iam-mcp-server",
        FASTMCP_1,
        "awslabs.iam-mcp-server",
        Kit([("get_user", {"user_name": "nobody"})]),
        "more than 20 tools",
        {
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "none",
            "AWS_SECRET_ACCESS_KEY": "none",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
            "AWS_MAX_ATTEMPTS": "1",
        },
        is_held_out=True,
    ),
    Server(
        "astrodynamics-mcp",
        FASTMCP_1,
        "astrodynamics-mcp stdio",
        Kit(),
        "FastMCP and low-level mixed",
        http="http --port {port}",
        is_held_out=True,
    ),
    Server(
        "unit-converter-mcp",
        "`fastmcp` 2",
        "unit-converter-mcp",
        Kit([("convert_temperature", {"value": "37.5", "from_unit": "celsius", "to_unit": "fahrenheit"})]),
        "`fastmcp`",
        differs=FASTMCP_4,
    ),
    Server(
        "office-word-mcp-server", "`fastmcp` 4", "word_mcp_server", Kit(WORD), "`fastmcp`; more than 50 tools"
    ),
    Server(
        "fastmcp-sample-server",
        "`fastmcp` 3",
        "sample-mcp-server --transport stdio",
        Kit(),
        "`fastmcp`; resources and prompts",
        differs=FASTMCP_4,
    ),
    Server("clinical-calc-mcp", "`fastmcp` 4", "clinical-calc-mcp", Kit(), "`fastmcp`"),
]
