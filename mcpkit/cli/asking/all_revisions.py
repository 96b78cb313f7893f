"""`mcpkit call --all-revisions`: the same call in each revision, and what differs between the results."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence

from ..._utils.exceptions import UNSUPPORTED_PROTOCOL_VERSION, AuthorizationError, ProtocolError, StatusError
from ...client.client import Client
from ...client.group import servers_of
from ...client.link.errors import InvalidResultError
from ...protocol.jsonrpc import Json, is_object
from ...protocol.revisions import ALL
from ..console import write, write_json, write_stderr
from ..exit_status import CommandError, Status
from .conversation import Conversation
from .server import Asked
from .tools import called, found, schema_of
from .values import arguments_of

_OF_TRANSPORT = frozenset({"resultType", "_meta", "ttlMs", "cacheScope"})
"""Members of results that belong to the protocol revision and not to the tool's result."""


async def compare(
    asked: Asked,
    conversation: Conversation,
    tool: str,
    arguments: Sequence[str],
    given: str | None,
    *,
    is_allowed: bool,
) -> int:
    """Call a tool in all revisions that its server speaks, and show the results, equal ones together.

    Args:
        asked: The server.
        conversation: What goes on meanwhile.
        tool: The tool's name.
        arguments: Its arguments, as they are written.
        given: All of them at once.
        is_allowed: Whether it may be called several times though it is neither read-only nor idempotent.

    Returns:
        The status: whether a result is an error.

    Raises:
        CommandError: There is no such tool, its arguments are wrong, or it may not be called twice.
    """
    outcomes: dict[str, Json] = {}
    unspoken: dict[str, str] = {}
    async with asked.client() as client:
        definition = await found(client, tool)
        _check(definition, tool, is_allowed=is_allowed)
        values = arguments_of(tool, schema_of(definition), arguments, given)
        if len(servers_of(client)) > 1:
            raise CommandError(
                "--all-revisions works with one server, and the configuration has several. "
                "Name one, for example FILE.json:NAME"
            )
        newest = client.protocol_version
        outcomes[newest] = await _outcome(client, conversation, definition, values)
    for revision in ALL:
        if revision == newest:
            continue
        try:
            async with asked.client(protocol_version=revision) as client:
                if client.protocol_version != revision:
                    unspoken[revision] = client.protocol_version_reason
                else:
                    outcomes[revision] = await _outcome(client, conversation, definition, values)
        except AuthorizationError:
            raise
        except (ProtocolError, StatusError) as error:
            if isinstance(error, ProtocolError) and error.code != UNSUPPORTED_PROTOCOL_VERSION:
                raise
            unspoken[revision] = str(error)
    _show(asked, outcomes, unspoken)
    return Status.TOOL_ERROR if any(map(_is_error, outcomes.values())) else Status.DONE


def _check(definition: Mapping[str, object], tool: str, *, is_allowed: bool) -> None:
    hints: object = definition.get("annotations")
    is_harmless = is_object(hints) and True in (hints.get("readOnlyHint"), hints.get("idempotentHint"))
    if not is_harmless and not is_allowed:
        raise CommandError(
            f"tool {tool} is not annotated as read-only or idempotent, and --all-revisions calls it up to "
            f"{len(ALL)} times. Add --yes to call it anyway"
        )


async def _outcome(
    client: Client, conversation: Conversation, definition: Mapping[str, object], values: Json
) -> Json:
    try:
        result = await called(client, conversation, definition, values)
    except InvalidResultError as error:
        return {**error.result.raw, "schema mismatch": str(error)}
    except ProtocolError as error:
        return {"error": {"code": error.code, "message": str(error)}}
    return result.raw


def _is_error(outcome: Json) -> bool:
    return outcome.get("isError") is True or "error" in outcome or "schema mismatch" in outcome


def _canonical(outcome: Json) -> str:
    """Return the JSON of a result: sorted, and without what belongs to its revision."""
    own = {name: value for name, value in outcome.items() if name not in _OF_TRANSPORT}
    if own.get("isError") is False:  # what is meant where it is left out
        del own["isError"]
    return json.dumps(own, indent=2, sort_keys=True, ensure_ascii=False)


def _show(asked: Asked, outcomes: dict[str, Json], unspoken: dict[str, str]) -> None:
    alike: dict[str, list[str]] = {}
    for revision in ALL:
        if revision in outcomes:
            alike.setdefault(_canonical(outcomes[revision]), []).append(revision)
    if asked.is_json:
        groups = [
            {"revisions": revisions, "result": json.loads(canonical)}
            for canonical, revisions in alike.items()
        ]
        write_json({"results": groups, "unspoken": unspoken})
        return
    for revision, reason in unspoken.items():
        write_stderr(f"the server does not support revision {revision}: {reason}")
    (first, of), *others = alike.items()
    write(f"{', '.join(of)}:\n{first}")
    for canonical, revisions in others:
        differences = [*difflib.unified_diff(first.splitlines(), canonical.splitlines(), n=1, lineterm="")][
            2:
        ]
        write("\n".join([f"{', '.join(revisions)}: differs from {of[0]}", *differences]))
    if not others and len(of) > 1:
        write_stderr(f"all {len(of)} results are the same")
