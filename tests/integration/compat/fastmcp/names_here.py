"""Compares the names of `fastmcp` with what `mcpkit.compat` has in its place; a process of its own runs it.

Standard output has a JSON object: faults, and how many names were looked at.
"""

import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import mcpkit.compat
from mcpkit.compat.fastmcp import Client, Context, FastMCP
from mcpkit.compat.fastmcp.fastmcp_tools import Audio, File, Image, Tool, ToolResult
from mcpkit.compat.fastmcp.resources_and_prompts import (
    Message,
    Prompt,
    PromptResult,
    Resource,
    ResourceContent,
    ResourceResult,
    ResourceTemplate,
)

mcpkit.compat.install()

server = FastMCP("shop")


def price(item: str = "tea") -> float:
    return 3.5


def named(name: str) -> str:
    return name


INSTANCES: dict[type, Any] = {
    FastMCP: server, Client: Client(server), Context: Context(server), Tool: Tool(price), Prompt: Prompt(named),
    Resource: Resource("data://x", lambda: "x", name="x"),
    ResourceTemplate: ResourceTemplate("data://{name}", named), ToolResult: ToolResult("x"), Message: Message("x"),
    PromptResult: PromptResult("x"), ResourceContent: ResourceContent("x"), ResourceResult: ResourceResult("x"),
    Image: Image(data=b"x"), Audio: Audio(data=b"x"), File: File(data=b"x"),
}  # fmt: skip

faults: list[str] = []
counts = {"names": 0, "attributes": 0, "options": 0}


def compare_module(module: str, names: dict[str, Any]) -> None:
    counts["names"] += 1 + len(names)
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        parts = module.split(".")
        if not any(f"has no '{'.'.join(parts[: length + 1])}'" in str(error) for length in range(len(parts))):
            faults.append(f"import {module}: {error!r}")
        return
    for name, attributes in names.items():
        try:
            exec(f"from {module} import {name}", {})
        except ImportError as error:
            if f"{module}.{name}" not in str(error):
                faults.append(f"from {module} import {name}: {error!r}")
            continue
        value = getattr(found, name)
        if isinstance(value, type) and attributes:
            compare_class(value, attributes)


def compare_class(found: type, attributes: dict[str, list[str] | None]) -> None:
    has_cures = not issubclass(found, BaseModel | BaseException)
    for name, parameters in attributes.items():
        counts["attributes"] += 1
        for holder in (found, INSTANCES.get(found)):
            if holder is None:
                continue
            try:
                value = getattr(holder, name)
            except AttributeError as error:
                if name not in str(error) or (has_cures and "mcpkit" not in str(error)):
                    faults.append(f"{holder!r}.{name}: {error!r}")
            except RuntimeError:  # a property of requests, outside of one
                pass
            except NotImplementedError as error:
                if "mcpkit" not in str(error):
                    faults.append(f"{holder!r}.{name}: {error!r}")
            else:
                if holder is found and parameters and callable(value) and "Absent" not in str(found.__mro__):
                    compare_parameters(found, name, parameters)


def compare_parameters(found: type, name: str, theirs: list[str]) -> None:
    if (found, name) == (Context, "__init__"):  # authors make none
        return
    called = found if name == "__init__" else getattr(found, name)
    ours = [
        each for each in inspect.signature(called).parameters.values() if each.name not in ("self", "cls")
    ]
    by_place = [each.name for each in ours if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    for there, here in zip([each for each in theirs if not each.startswith("*")], by_place, strict=False):
        if there != here:
            faults.append(f"{found.__name__}.{name} has {here} where fastmcp has {there}")
    takes_any = any(each.kind is each.VAR_KEYWORD for each in ours)
    for option in (each.lstrip("*") for each in theirs):
        counts["options"] += 1
        if not takes_any and option not in {each.name for each in ours}:
            faults.append(f"{found.__name__}.{name} has no {option}=")


for each, known in json.loads(Path(sys.argv[1]).read_text()).items():
    compare_module(each, known)
print(json.dumps({"faults": faults, **counts}))
