"""The option `mcpkit call --all-revisions`: the same call in each revision, and the differences between the results."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Final

from .._utils.exceptions import UNSUPPORTED_PROTOCOL_VERSION, AuthorizationError, ProtocolError, StatusError
from ..client.call_results import InvalidResultError
from ..client.client import Client
from ..client.client_group import servers_of
from ..protocol.jsonrpc import Json, is_object
from ..protocol.revisions import ALL
from .console import write, write_json, write_stderr
from .exit_status import CommandError, Status
from .interactive_handlers import InteractiveHandlers
from .key_values import parse_arguments
from .schema_summary import schema_of_tool
from .server_target import ServerTarget
from .tool_calls import call_tool, find_tool

_REVISION_MEMBERS: Final = frozenset({"resultType", "_meta", "ttlMs", "cacheScope"})
"""Members of results that belong to the protocol revision and not to the tool's result."""


async def compare_revisions(
    server: ServerTarget, tool: str, texts: Sequence[str], base: str | None, *, is_confirmed: bool
) -> int:
    """Call a tool in each revision that the server supports, and write the results, equal ones together.

    Args:
        server: The target; it has handlers.
        tool: The name of the tool.
        texts: The arguments on the command line.
        base: The option `--args`.
        is_confirmed: Whether the tool may be called several times though it is neither read-only nor idempotent.

    Returns:
        The exit status.

    Raises:
        CommandError: The tool or an argument is unknown, or the tool must not be called twice.
    """
    assert server.handlers is not None
    results: dict[str, Json] = {}
    unsupported: dict[str, str] = {}
    async with server.client() as client:
        definition = await find_tool(client, tool)
        hints: object = definition.get("annotations")
        is_repeatable = is_object(hints) and True in (hints.get("readOnlyHint"), hints.get("idempotentHint"))
        if not is_repeatable and not is_confirmed:
            raise CommandError(
                f"tool {tool} is not annotated as read-only or idempotent, and --all-revisions calls it up to "
                f"{len(ALL)} times. Add --yes to call it anyway"
            )
        arguments = parse_arguments(tool, schema_of_tool(definition), texts, base)
        if len(servers_of(client)) > 1:
            raise CommandError(
                "--all-revisions works with one server, and the configuration has several. "
                "Name one, for example FILE.json:NAME"
            )
        newest = client.protocol_version
        results[newest] = await _call(client, server.handlers, definition, arguments)
    for revision in ALL:
        if revision == newest:
            continue
        try:
            async with server.client(protocol_version=revision) as client:
                if client.protocol_version != revision:
                    unsupported[revision] = client.protocol_version_reason
                else:
                    results[revision] = await _call(client, server.handlers, definition, arguments)
        except AuthorizationError:
            raise
        except (ProtocolError, StatusError) as error:
            if isinstance(error, ProtocolError) and error.code != UNSUPPORTED_PROTOCOL_VERSION:
                raise
            unsupported[revision] = str(error)
    _write_comparison(results, unsupported, is_json=server.is_json)
    is_error = any(
        result.get("isError") is True or "error" in result or "schema mismatch" in result
        for result in results.values()
    )
    return Status.TOOL_ERROR if is_error else Status.DONE


async def _call(
    client: Client, handlers: InteractiveHandlers, definition: Mapping[str, object], arguments: Json
) -> Json:
    """Return the result of a call, or its error as an object."""
    try:
        result = await call_tool(client, definition, arguments, progress=handlers.progress)
    except InvalidResultError as error:
        return {**error.result.raw, "schema mismatch": str(error)}
    except ProtocolError as error:
        return {"error": {"code": error.code, "message": str(error)}}
    return result.raw


def _canonical_json(result: Json) -> str:
    """Return the JSON of a result, sorted and without the members of its revision."""
    own = {name: value for name, value in result.items() if name not in _REVISION_MEMBERS}
    if own.get("isError") is False:  # the default
        del own["isError"]
    return json.dumps(own, indent=2, sort_keys=True, ensure_ascii=False)


def _write_comparison(results: dict[str, Json], unsupported: dict[str, str], *, is_json: bool) -> None:
    revisions_by_result: dict[str, list[str]] = {}
    for revision in ALL:
        if revision in results:
            revisions_by_result.setdefault(_canonical_json(results[revision]), []).append(revision)
    if is_json:
        groups = [
            {"revisions": revisions, "result": json.loads(result)}
            for result, revisions in revisions_by_result.items()
        ]
        write_json({"results": groups, "unspoken": unsupported})
        return
    for revision, reason in unsupported.items():
        write_stderr(f"the server does not support revision {revision}: {reason}")
    (first, first_revisions), *others = revisions_by_result.items()
    write(f"{', '.join(first_revisions)}:\n{first}")
    for result, revisions in others:
        diff = list(difflib.unified_diff(first.splitlines(), result.splitlines(), n=1, lineterm=""))
        write("\n".join([f"{', '.join(revisions)}: differs from {first_revisions[0]}", *diff[2:]]))
    if not others and len(first_revisions) > 1:
        write_stderr(f"all {len(first_revisions)} results are the same")
