"""`Tool` and `ToolManager`: what is done by their users beside what clients see."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpkit.compat.fastmcp import FastMCP
from mcpkit.compat.fastmcp.exceptions import ToolError
from mcpkit.compat.fastmcp.tools import Tool, ToolManager

pytestmark = pytest.mark.anyio


def weather(city: str, days: int = 1) -> str:
    """Tell the weather."""
    return f"{days} days of rain in {city}"


async def test_a_tool_is_called_and_its_result_is_converted():
    tool = ToolManager().add_tool(weather)
    content, structured = await tool.run({"city": "Rome", "days": "2", "unknown": 1}, convert_result=True)
    assert [block.model_dump(exclude_none=True) for block in content] == [
        {"type": "text", "text": "2 days of rain in Rome"}
    ]
    assert structured == {"result": "2 days of rain in Rome"}


def test_tools_keep_the_order_in_which_they_were_registered():
    def opened(where: Path) -> str: ...

    manager = ToolManager()
    for name, function in enumerate([weather, opened, weather]):
        manager.add_tool(function, str(name))
    manager.add_tool(weather, "added")
    manager.add_tool(weather, "last")
    assert list(manager._tools) == ["0", "1", "2", "added", "last"]


def test_a_name_that_is_taken_is_warned_of_once(caplog):
    manager = ToolManager()
    manager.add_tool(weather)
    manager.add_tool(weather, description="another")
    assert manager.add_tool(weather).description == "Tell the weather."
    assert [record.getMessage() for record in caplog.records] == ["Tool already exists: weather"] * 2


def test_a_manager_whose_tools_are_added_in_another_way_adds_all_of_them_so():
    class Named(ToolManager):
        def add_tool(self, fn, name=None, **said):
            return super().add_tool(fn, f"my_{fn.__name__}", **said)

    manager = Named()
    manager.add_tool(weather)
    manager._tools["more"] = Tool.from_function(weather, name="more")
    assert list(manager._tools) == ["my_weather", "more"]


def test_tools_that_are_replaced_are_those_that_are_there():
    manager = ToolManager()
    manager.add_tool(weather)
    manager._tools = {"other": Tool.from_function(weather, name="other")}
    assert [tool.name for tool in manager.list_tools()] == ["other"]


async def test_an_unknown_tool_is_an_error():
    with pytest.raises(ToolError, match="Unknown tool: nothing"):
        await ToolManager().call_tool("nothing", {})


async def test_who_changes_what_is_listed_changes_no_tool():
    server = FastMCP("x")
    server.add_tool(weather, meta={"a": 1})
    (listed,) = await server.list_tools()
    schema = dict(listed.inputSchema)
    listed.inputSchema["more"] = listed.meta["more"] = True
    (again,) = await server.list_tools()
    assert (again.inputSchema, again.meta) == (schema, {"a": 1})
