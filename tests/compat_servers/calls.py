"""Tools of the servers, with arguments whose answers need no network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Calls = list[tuple[str, Mapping[str, Any]]]
BOOK = "{work}/book.xlsx"
SHEET = {"filepath": BOOK, "sheet_name": "Sheet1"}
REPOSITORY = {"repo_path": "{work}/repository"}

EXCEL: Calls = [
    ("create_workbook", {"filepath": BOOK}),
    ("create_worksheet", {"filepath": BOOK, "sheet_name": "Data"}),
    ("write_data_to_excel", SHEET | {"data": [["name", "count"], ["ada", 1], ["grace", 2.5], [None, True]]}),
    ("read_data_from_excel", SHEET),
    ("read_data_from_excel", SHEET | {"start_cell": "A1", "end_cell": "B2", "preview_only": "true"}),
    ("apply_formula", SHEET | {"cell": "C1", "formula": "=SUM(B2:B3)"}),
    ("validate_formula_syntax", SHEET | {"cell": "C2", "formula": "=SUM(B2"}),
    ("format_range", SHEET | {"start_cell": "A1", "end_cell": "B1", "bold": True, "font_size": "14"}),
    ("merge_cells", SHEET | {"start_cell": "D1", "end_cell": "E2"}),
    ("get_merged_cells", SHEET),
    ("insert_rows", SHEET | {"start_row": 2, "count": "2"}),
    ("create_chart", SHEET | {"data_range": "A1:B3", "chart_type": "bar", "target_cell": "G1"}),
    ("create_table", SHEET | {"data_range": "A1:B5", "table_name": "Counts"}),
    ("rename_worksheet", {"filepath": BOOK, "old_name": "Data", "new_name": "Numbers"}),
    ("get_workbook_metadata", {"filepath": BOOK, "include_ranges": True}),
    ("get_workbook_metadata", {"filepath": "{work}/none.xlsx"}),
]

POWERPOINT: Calls = [
    ("create_presentation", {"id": "one"}),
    ("add_slide", {"layout_index": 0, "title": "A slide", "presentation_id": "one"}),
    ("populate_placeholder", {"slide_index": 0, "placeholder_idx": 1, "text": "Under the title"}),
    ("add_slide", {"layout_index": 1}),
    ("add_bullet_points", {"slide_index": 1, "placeholder_idx": 1, "bullet_points": ["one", "two"]}),
    ("add_bullet_points", {"slide_index": 1, "placeholder_idx": 1, "bullet_points": '["three"]'}),
    ("add_table", {"slide_index": 1, "rows": 2, "cols": 2, "data": [["a", "b"], ["c", "d"]]}),
    ("add_shape", {"slide_index": 1, "shape_type": "rectangle", "left": 1, "top": 1}),
    (
        "add_chart",
        {
            "slide_index": 1,
            "chart_type": "column",
            "left": 1,
            "top": 1,
            "width": 4,
            "height": 3,
            "categories": ["a", "b"],
            "series_names": ["s"],
            "series_values": [[1, 2]],
        },
    ),
    ("get_slide_info", {"slide_index": 1}),
    ("extract_presentation_text", {}),
    ("list_slide_templates", {}),
    ("set_core_properties", {"title": "Title", "author": "Ada"}),
    ("save_presentation", {"file_path": "{work}/deck.pptx"}),
    ("open_presentation", {"file_path": "{work}/deck.pptx", "id": "two"}),
    ("switch_presentation", {"presentation_id": "one"}),
    ("list_presentations", {}),
    ("get_server_info", {}),
    ("get_slide_info", {"slide_index": 99}),
]

TREE_SITTER: Calls = [
    ("register_project_tool", {"path": "{work}/project", "name": "sample", "description": "Two files"}),
    ("list_projects_tool", {}),
    ("list_files", {"project": "sample", "extensions": ["py"]}),
    ("get_file", {"project": "sample", "path": "sample.py", "max_lines": 5}),
    ("get_file_metadata", {"project": "sample", "path": "sample.py"}),
    ("get_ast", {"project": "sample", "path": "sample.py", "max_depth": 2}),
    ("find_text", {"project": "sample", "pattern": "def", "context_lines": "1"}),
    ("get_symbols", {"project": "sample", "file_path": "sample.py", "symbol_types": ["functions"]}),
    ("get_query_template_tool", {"language": "python", "template_name": "functions"}),
    ("check_language_available", {"language": "python"}),
    ("analyze_complexity", {"project": "sample", "file_path": "sample.py"}),
    ("get_file", {"project": "nothing", "path": "sample.py"}),
]

INTERPRETER: Calls = [
    ("run_python_code", {"code": "print(6 * 7)"}),
    ("run_python_code", {"code": "value = 20", "session_id": "one"}),
    ("run_python_code", {"code": "print(value + 1)\n1 / 0", "session_id": "one"}),
    ("write_file", {"file_path": "made.py", "content": "print('made')\n"}),
    ("write_file", {"file_path": "made.py", "content": "print('made')\n"}),
    ("read_file", {"file_path": "made.py", "max_size_kb": "10"}),
    ("run_python_file", {"file_path": "made.py", "arguments": ["a"]}),
    ("list_directory", {"directory_path": ""}),
    ("list_sessions", {}),
    ("clear_session", {"session_id": "one"}),
    ("list_installed_packages", {}),
]

GIT: Calls = [
    ("git_status", REPOSITORY),
    ("git_log", REPOSITORY | {"max_count": 1}),
    ("git_create_branch", REPOSITORY | {"branch_name": "side"}),
    ("git_checkout", REPOSITORY | {"branch_name": "side"}),
    ("git_diff_unstaged", REPOSITORY),
    ("git_add", REPOSITORY | {"files": ["new.txt"]}),
    ("git_diff_staged", REPOSITORY | {"context_lines": 1}),
    ("git_commit", REPOSITORY | {"message": "Add a file"}),
    ("git_show", REPOSITORY | {"revision": "HEAD"}),
    ("git_branch", REPOSITORY | {"branch_type": "local"}),
    ("git_branch", REPOSITORY | {"branch_type": "of another planet"}),
    ("git_status", {"repo_path": "{work}/none"}),
]

SQLITE: Calls = [
    ("create_table", {"query": "CREATE TABLE people (name TEXT, born INTEGER)"}),
    ("write_query", {"query": "INSERT INTO people VALUES ('Ada', 1815), ('Grace', 1906)"}),
    ("read_query", {"query": "SELECT * FROM people"}),
    ("list_tables", {}),
    ("describe_table", {"table_name": "people"}),
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
    ("find_files", {"pattern": "*.py"}),
    ("search_code_advanced", {"pattern": "def", "context_lines": "1"}),
    ("build_deep_index", {}),
    ("get_file_summary", {"file_path": "sample.py"}),
    ("get_symbol_body", {"file_path": "sample.py", "symbol_name": "greet"}),
    ("get_file_watcher_status", {}),
    ("set_project_path", {"path": "{work}/none"}),
]

WORD: Calls = [
    ("create_document", {"filename": "{work}/text.docx", "title": "A text", "author": "Ada"}),
    ("add_heading", {"filename": "{work}/text.docx", "text": "One", "level": "1"}),
    ("add_paragraph", {"filename": "{work}/text.docx", "text": "The first paragraph."}),
    ("add_table", {"filename": "{work}/text.docx", "rows": 2, "cols": 2, "data": [["a", "b"], ["c", "d"]]}),
    ("get_document_text", {"filename": "{work}/text.docx"}),
    ("get_document_outline", {"filename": "{work}/text.docx"}),
    ("list_available_documents", {"directory": "{work}"}),
    ("get_document_text", {"filename": "{work}/none.docx"}),
]
