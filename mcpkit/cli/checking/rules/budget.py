"""What tools cost a model, which reads all of them before it does anything."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ....protocol.jsonrpc import Json
from ...token_count import count_tokens
from ..finding import Found, Looked, rule


@rule("tool-over-budget", "warning")
def tool_over_budget(looked: Looked) -> Iterator[Found]:
    """A tool costs more tokens than `--tool-budget` allows (1,000), by an estimate."""
    for where, tool in looked.each("tool"):
        if _may_exceed(tool, looked.tool_budget) and (cost := tokens_of(tool)) > looked.tool_budget:
            yield Found(
                where,
                f"its definition takes about {cost:,} tokens; the limit is {looked.tool_budget:,}",
                "shorten the descriptions, or use fewer arguments",
            )


@rule("total-over-budget", "warning")
def total_over_budget(looked: Looked) -> Iterator[Found]:
    """All tools together cost more tokens than `--budget` allows (10,000), by an estimate."""
    tools = [tool for _, tool in looked.each("tool")]
    if sum(map(_size, tools)) <= looked.budget:
        return
    total = sum(map(tokens_of, tools))
    if total > looked.budget:
        yield Found(
            "all tools",
            f"their definitions take about {total:,} tokens; the limit is {looked.budget:,}",
            "remove tools, or split the server",
        )


def tokens_of(tool: Json) -> int:
    """Estimate what a model reads of a tool: its name, description and arguments."""
    return count_tokens(_read(tool))


def _read(tool: Json) -> str:
    read = {
        "name": tool.get("name"),
        "description": tool.get("description"),
        "parameters": tool.get("inputSchema"),
    }
    return json.dumps(read, ensure_ascii=False)


def _size(tool: Json) -> int:
    return len(_read(tool).encode(errors="replace"))


def _may_exceed(tool: Json, budget: int) -> bool:
    """Say whether it is worth counting: a token is a byte at least, and the tables take a second."""
    return _size(tool) > budget
