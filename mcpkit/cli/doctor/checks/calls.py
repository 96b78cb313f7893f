"""Whether tools answer what they promise: those that may be called without doing harm, and without arguments."""

from __future__ import annotations

from ....client.tools.output import output_of
from ....client.tools.schemas import UnusableSchemaError
from ....protocol.jsonrpc import Json, is_object
from ..findings.finding import Seen, quoted
from ..patients.patient import Patient


async def calls(patient: Patient) -> Seen:
    """Call each tool that is read-only or idempotent, and needs no arguments."""
    seen = Seen("calls")
    tools = [tool for tool in patient.lists["tools/list"] if _is_harmless(tool)]
    for tool in tools if patient.wants_calls else ():
        answer = await patient.ask("tools/call", {"name": tool.get("name"), "arguments": {}})
        if answer.result is None:
            seen.find("call-fails", tool=tool.get("name"), answer=answer)
        elif "outputSchema" in tool and not answer.result.get("isError") and "content" in answer.result:
            output = output_of(tool)
            problems = (
                [str(output)] if isinstance(output, UnusableSchemaError) else output.problems(answer.result)
            )
            if problems:
                seen.find("output-mismatch", tool=tool.get("name"), problem=quoted(str(problems[0]), 160))
    if tools:
        count = f"{len(tools)} of {len(patient.lists['tools/list'])} tools"
        seen.summary = f"called {count}" if patient.wants_calls else f"{count} can be called with --call"
    return seen


def _is_harmless(tool: Json) -> bool:
    hints, schema = tool.get("annotations"), tool.get("inputSchema")
    if not is_object(hints) or not is_object(schema) or schema.get("required"):
        return False
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True
