"""Content for revisions that do not know all of it: the nearest kind that they know, never nothing."""

from __future__ import annotations

from .jsonrpc import encode
from .revisions import CONTENT_SINCE, knows, narrow
from .types import Json


def block(value: Json, revision: str) -> Json:
    """Return a content block in the form of a protocol version.

    Args:
        value: A block of the newest protocol version; it is not changed.
        revision: Protocol version of the reader.

    Returns:
        `value` itself if the version defines all of it. Audio becomes an embedded blob, a link to a resource becomes
        text.
    """
    kind = value["type"]
    if kind == "text" and len(value) == 2:
        return value  # the text alone, as most are
    if kind in CONTENT_SINCE and CONTENT_SINCE[kind] > revision:
        said = _audio_as_blob(value) if kind == "audio" else _link_as_text(value)
        value = said | {name: value[name] for name in ("annotations",) if name in value}
    elif kind == "resource":
        inner = narrow("ResourceContents", value["resource"], revision)
        if inner is not value["resource"]:
            value = {**value, "resource": inner}
    return narrow("ContentBlock", value, revision)


def _audio_as_blob(audio: Json) -> Json:
    contents = {"uri": "content://audio", "mimeType": audio["mimeType"], "blob": audio["data"]}
    return {"type": "resource", "resource": contents}


def _link_as_text(link: Json) -> Json:
    lines = [f"{link.get('title') or link['name']}: {link['uri']}"]
    if "description" in link:
        lines.append(link["description"])
    return {"type": "text", "text": "\n".join(lines)}


def tool_result(result: Json, revision: str, *, wrapped: bool) -> Json:
    """Return the result of `tools/call` in the form of a protocol version.

    Args:
        result: Result of the newest protocol version; it is not changed.
        revision: Protocol version of the reader, an older one.
        wrapped: Whether the tool's output schema is wrapped for versions that only allow objects.
    """
    narrowed = {**result, "content": [block(item, revision) for item in result["content"]]}
    if "structuredContent" not in result:
        return narrowed
    value = result["structuredContent"]
    if knows(revision, "CallToolResult", "structuredContent"):
        if wrapped or type(value) is not dict:
            narrowed["structuredContent"] = {"result": value}
        return narrowed
    del narrowed["structuredContent"]
    if not narrowed["content"]:
        narrowed["content"] = [{"type": "text", "text": encode(value).decode()}]
    return narrowed
