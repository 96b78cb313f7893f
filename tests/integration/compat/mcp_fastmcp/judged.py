"""Prints functions as tools of `FastMCP`, as JSON: run with the real library, or called with ours.

A case is the `source` of a module, after the prelude, with `functions` that are registered with `options`; the module
sees the library's names. Each function is called with each of `calls`.
"""

import asyncio
import contextlib
import io
import json
import logging
import platform
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pydantic

REAL = {
    "types": "mcp.types", "func_metadata": "mcp.server.fastmcp.utilities.func_metadata",
    "base": "mcp.server.fastmcp.tools", "media": "mcp.server.fastmcp.utilities.types",
    "exceptions": "mcp.server.fastmcp.exceptions", "context": "mcp.server.fastmcp",
}  # fmt: skip
OURS = {
    "types": "mcpkit.compat.types", "func_metadata": "mcpkit.compat.mcp_fastmcp.function_metadata",
    "base": "mcpkit.compat.mcp_fastmcp.mcp_components", "media": "mcpkit.compat.mcp_fastmcp.function_metadata",
    "exceptions": "mcpkit.compat.mcp_fastmcp.function_metadata", "context": "mcpkit.compat.mcp_fastmcp",
}  # fmt: skip
NAMES = {
    "func_metadata": ("func_metadata", "FuncMetadata", "ArgModelBase"), "base": ("Tool", "ToolManager"),
    "media": ("Image", "Audio"), "exceptions": ("ToolError", "InvalidSignature"), "context": ("Context",),
}  # fmt: skip


def judged(homes, cases):
    """Give what becomes of each case."""
    modules = {key: import_module(home) for key, home in homes.items()}
    given = {name: getattr(modules[key], name) for key, names in NAMES.items() for name in names}
    module = sys.modules["a_case"] = ModuleType("a_case")
    vars(module).update(given, types=modules["types"])
    run(Path(__file__).with_name("tables").joinpath("prelude.txt").read_text("utf-8"), module)
    given = dict(vars(module))
    text = json.dumps(asyncio.run(outcomes(given, cases)))
    homes = {**homes, "context": given["Context"].__module__}
    for key, home in homes.items():  # here one module may be the home of several keys
        for name in NAMES.get(key, ()):
            text = text.replace(f"{home}.{name}", f"{key}.{name}")
    for key, home in homes.items():
        text = text.replace(f"{home}.", f"{key}.")
    return json.loads(re.sub("0x[0-9a-f]{6,}", "0x", text))


def run(source, module):
    exec(compile(source, module.__name__, "exec", dont_inherit=True), vars(module))


async def outcomes(value, cases):
    return [await outcome(value, case) for case in cases]


async def outcome(value, case):
    module = sys.modules["a_case"]
    vars(module).clear()
    vars(module).update(value)
    errors = io.StringIO()
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stderr(errors):
        warnings.simplefilter("always")
        try:
            run(case["source"], module)
            options = getattr(module, "options", {}) | case.get("options", {})
            tools = [registered(value, fn, options) for fn in module.functions]
        except Exception as error:
            return {"refused": [type(error).__name__, str(error)]}
        tools = [each if hasattr(each, "fn") else each.list_tools()[0] for each in tools]
        more = await module.more(*tools) if hasattr(module, "more") else None
        described = [description(tool) for tool in tools]
        answers = [await answer(tool, arguments) for tool in tools for arguments in case.get("calls", ())]
    return {
        "tools": described,
        "answers": answers,
        "more": json.loads(json.dumps(more, default=str)),
        "warned": sorted({str(each.message) for each in warned}),
    }


def registered(value, fn, options):
    manager = value["ToolManager"]()
    if "context_kwarg" in options:
        return value["Tool"].from_function(fn, **options)
    getattr(manager, "register", manager.add_tool)(fn, **options)
    return manager


def description(tool):
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "parameters": json.dumps(tool.parameters),
        "output_schema": json.dumps(tool.output_schema),
        "is_async": tool.is_async,
        "context_kwarg": tool.context_kwarg,
        "annotations": tool.annotations and tool.annotations.model_dump(),
        "icons": tool.icons and [icon.model_dump() for icon in tool.icons],
        "meta": tool.meta,
        "model": [
            [name, repr(field.annotation), field.alias, repr(field.default)]
            for name, field in tool.fn_metadata.arg_model.model_fields.items()
        ],
        "wrapped": tool.fn_metadata.wrap_output,
    }


async def answer(tool, arguments):
    try:
        result = await tool.run(arguments, context="the context", convert_result=True)
    except Exception as error:
        return {"error": [type(error).__name__, str(error), type(error.__cause__).__name__]}
    return dumped(result)


def dumped(result):
    if isinstance(result, pydantic.BaseModel):
        return [type(result).__name__, result.model_dump(mode="json", by_alias=True)]
    if isinstance(result, tuple):
        return {"content": dumped(result[0]), "structured": json.dumps(result[1])}
    return [dumped(block) for block in result]


def versions():
    """Give what the texts of errors depend on."""
    return [platform.python_version_tuple()[:2], pydantic.VERSION]


if __name__ == "__main__":
    logging.disable()
    out = sys.stdout
    print(json.dumps(versions()), file=out, flush=True)
    for line in sys.stdin:
        print(json.dumps(judged(REAL, json.loads(line))), file=out, flush=True)
