"""Results of tools, prompts and resources, read also where a server deviates from the schema.

A member that is missing, null or empty, a text in place of a list, or a list in place of a text is read where it can be
read in one way only. Anything else is an error that names the member. Members that the schema allows stay as they are.
"""

from __future__ import annotations

import json
from base64 import b64encode
from binascii import a2b_base64
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote_to_bytes

from .._utils.exceptions import INTERNAL_ERROR, ProtocolError, reduce_exception
from ..protocol.jsonrpc import Json, is_array, is_object, without

if TYPE_CHECKING:
    from ..protocol.objects import ContentBlock

_BINARY: Final = "application/octet-stream"
_ENVELOPE: Final = frozenset({"_meta", "resultType", "ttlMs", "cacheScope"})
_KNOWN: Final = {
    "content": _ENVELOPE | {"content", "structuredContent", "isError"},
    "messages": _ENVELOPE | {"messages", "description"},
    "contents": _ENVELOPE | {"contents"},
}
"""Members of results that cannot hold the data of a missing member."""

_OPTIONAL_TEXTS: Final = {"mimeType", "name", "title", "description"}
_OPTIONAL_OBJECTS: Final = {"annotations", "_meta"}
_ROLE: Final = '"user" or "assistant"'
_BASE64_DIGITS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_URL_SAFE_TO_STANDARD: Final = str.maketrans("-_", "+/")


class CallResult:
    """The result of a tool call.

    Results that deviate from the schema are accepted if they can be read in one way only, for example without
    `content`, with a string in its place, or with blocks that have no type.

    Args:
        result: The result, as the server sent it.
        may_be_null: Whether null is a value of `structuredContent`, as in 2026-07-28. Otherwise it means that there is
            none.

    Attributes:
        type: The `resultType`: `complete`, or another type. It is `complete` in versions without result types.
        raw: All members of the result. If the type is that of an extension, the other attributes are empty.
        content: The content blocks.
        structured_content: The structured content, or None.
        is_error: Whether the tool failed.
        meta: The result's `_meta`.

    Raises:
        ProtocolError: A member cannot be read; the message names it.
    """

    __slots__ = ("content", "is_error", "meta", "raw", "structured_content", "type")

    def __init__(self, result: Json, *, may_be_null: bool = True) -> None:
        kind: object = result.get("resultType")
        if not isinstance(kind, str | None):
            raise malformed("tools/call", "a string as resultType")
        self.type: str = kind or "complete"
        is_complete = self.type == "complete"
        self.raw = tool_result(result, may_be_null=may_be_null) if is_complete else result
        self.content: list[ContentBlock] = self.raw["content"] if is_complete else []
        self.structured_content: Any = self.raw.get("structuredContent")
        self.is_error: bool = is_complete and bool(self.raw.get("isError"))
        self.meta: Json = self.raw.get("_meta") or {}

    @property
    def data(self) -> Any:
        """The value that the tool returned: the structured content, or the value of its only member `result`.

        Servers wrap values that are not objects in `{"result": ...}`, as versions before 2026-07-28 require objects.
        """
        structured: object = self.structured_content
        if is_object(structured) and structured.keys() == {"result"}:
            return structured["result"]
        return structured

    @property
    def is_structured_only(self) -> bool:
        """True if the result has structured content, and no other content except empty text blocks."""
        return "structuredContent" in self.raw and not any(
            block["type"] != "text" or block["text"].strip() for block in self.content
        )

    @property
    def text(self) -> str:
        """The text blocks joined by newlines, or the JSON of the structured content if `is_structured_only`."""
        if self.is_structured_only:
            return json.dumps(self.structured_content, ensure_ascii=False)
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")

    @property
    def error_text(self) -> str:
        """The error message of a failed tool: `text`, or else the JSON of the other content."""
        text = self.text
        if text.strip():
            return text
        if others := [block for block in self.content if block["type"] != "text"]:
            return json.dumps(others, ensure_ascii=False)
        return "the tool failed, and the server sent no error text"

    def __repr__(self) -> str:
        """Return a representation with the text."""
        return f"CallResult({self.text!r}, is_error={self.is_error})"


class InvalidResultError(ValueError):
    """The result of a tool does not fit its `outputSchema`, or the requested type. The tool has run nevertheless.

    Args:
        message: The mismatch and its place.
        result: The result.
    """

    def __init__(self, message: str, result: CallResult) -> None:
        super().__init__(message)
        self.result = result

    __reduce__ = reduce_exception


InvalidResultError.__module__ = "mcpkit.exceptions"


# Members of results


def objects(result: Json, member: str, method: str) -> list[Json]:
    """Return the objects in a member of a result.

    Raises:
        ProtocolError: The member is not an array of objects.
    """
    found: object = result.get(member)
    if type(found) is list:
        items = cast("list[Json]", found)
        for each in items:
            if type(each) is not dict:
                break
        else:
            return items
    raise malformed(method, f"an array of objects as {member}")


def strings(result: Json, member: str, method: str) -> list[str]:
    """Return the strings in a member of a result.

    Raises:
        ProtocolError: The member is not an array of strings.
    """
    found = result.get(member)
    if not is_array(found) or not all(isinstance(each, str) for each in found):
        raise malformed(method, f"an array of strings as {member}")
    return found


def member_object(result: Json, member: str, method: str) -> Json:
    """Return the object in a member of a result.

    Raises:
        ProtocolError: The member is not an object.
    """
    found: Any = result.get(member)
    if not is_object(found):
        raise malformed(method, f"an object as {member}")
    return found


def malformed(method: str, expected: str) -> ProtocolError:
    """Return the error for a result that does not have the form of the specification."""
    return ProtocolError(INTERNAL_ERROR, f"the server's answer to {method} is malformed: expected {expected}")


# Tolerant reading


def tool_result(result: Json, *, may_be_null: bool) -> Json:
    """Read the result of `tools/call`, with the members `content`, `isError` and `_meta` as the schema has them.

    Args:
        result: The result.
        may_be_null: Whether null is a value of `structuredContent`. In handshake revisions it must be an object, and
            null means that there is none.

    Raises:
        ProtocolError: A member cannot be read in one way; the message names it.
    """
    reader = _Reader("tools/call")
    read: Json = {}
    if not may_be_null and "structuredContent" in result and result["structuredContent"] is None:
        result = {name: value for name, value in result.items() if name != "structuredContent"}
    if "structuredContent" not in result and result.get("isError") is None:
        reader.check_missing(result, "content")
    read["content"] = reader.blocks(result.get("content"), "content")
    if "isError" in result:
        read["isError"] = reader.flag(result["isError"], "isError")
    if "_meta" in result:
        read["_meta"] = reader.members(result["_meta"], "_meta")
    return result if all(result.get(name) == value for name, value in read.items()) else {**result, **read}


def prompt_messages(result: Json) -> list[Any]:
    """Read the messages of a result of `prompts/get`.

    Raises:
        ProtocolError: A member cannot be read in one way; the message names it.
    """
    reader = _Reader("prompts/get")
    reader.check_missing(result, "messages")
    items = _items(result.get("messages"), "messages")
    return [message for item, place in items for message in reader.messages(item, place)]


def resource_contents(result: Json, uri: str) -> list[Any]:
    """Read the contents of a result of `resources/read`.

    Args:
        result: The result.
        uri: The URI in the request, for contents that have none.

    Raises:
        ProtocolError: A member cannot be read in one way; the message names it.
    """
    reader = _Reader("resources/read")
    reader.check_missing(result, "contents")
    items = _items(result.get("contents"), "contents")
    return [contents for item, place in items for contents in reader.contents(item, place, uri)]


def _items(value: object, place: str) -> list[tuple[object, str]]:
    """Return the items of a list, or a value that stands in place of one, with their places; nulls are left out."""
    if is_array(value):
        return [(item, f"{place}[{index}]") for index, item in enumerate(value) if item is not None]
    return [] if value is None else [(value, place)]


class _Reader:
    """Reads members of a result.

    Args:
        method: The method that the result answers, for errors.
    """

    def __init__(self, method: str) -> None:
        self._method = method

    def check_missing(self, result: Json, member: str) -> None:
        """Raise an error if a member is missing and an unknown member may hold its data."""
        unknown = result.keys() - _KNOWN[member]
        if unknown and member not in result:
            raise malformed(self._method, f"{member}, got {', '.join(sorted(map(repr, unknown)))}")

    def blocks(self, value: object, place: str) -> list[Json]:
        """Read content blocks."""
        return [block for item, here in _items(value, place) for block in self._block(item, here)]

    def messages(self, item: object, place: str) -> list[Json]:
        """Read a message of a prompt; one of several blocks becomes several messages."""
        if isinstance(item, str):
            return [{"role": "user", "content": {"type": "text", "text": item}}]
        message = self._object(item, place, f"a message as {place}")
        role = self._text(message.get("role"), f"{place}.role", _ROLE)
        if not role:
            raise malformed(self._method, f"{_ROLE} as {place}.role")
        if "content" not in message and message.keys() - {"role", "_meta"}:
            raise malformed(self._method, f"a content block as {place}.content")
        blocks = self.blocks(message.get("content"), f"{place}.content") or [{"type": "text", "text": ""}]
        if len(blocks) == 1 and blocks[0] is message.get("content") and role is message["role"]:
            return [message]
        return [{**message, "role": role, "content": block} for block in blocks]

    def contents(self, item: object, place: str, uri: str | None) -> list[Json]:
        """Read the contents of a resource; those with a list of texts become several.

        Args:
            item: The contents.
            place: Where they are in the result.
            uri: The URI of those that have none; None where it is not known.
        """
        if isinstance(item, str) and uri is not None:
            return [{"uri": uri, "text": item}]
        if (
            is_object(item)
            and item.keys() == {"uri", "mimeType", "text"}
            and set(map(type, item.values())) == {str}
        ):
            return [item]  # as nearly all are
        read = self._object(item, place, f"an object with text or blob as {place}")
        own_uri = read.get("uri")
        read = {**read, "uri": uri if uri and not own_uri else self._text(own_uri, f"{place}.uri", "a text")}
        text, blob = read.get("text"), read.get("blob")
        if text and blob:
            if not (isinstance(text, str) and isinstance(blob, str) and _is_base64_of(blob, text)):
                raise malformed(self._method, f"text or blob in {place}, not both")
            blob = None
        if blob or (blob is not None and text is None):
            encoded, mime_type = self._base64(blob, f"{place}.blob")
            found = {"mimeType": mime_type} if mime_type else {}
            return [{**found, **without(read, "text"), "blob": encoded}]
        if text is None and read.keys() - {"uri", "mimeType", "blob", "text", "annotations", "_meta"}:
            raise malformed(self._method, f"text or blob in {place}")
        read = without(read, "blob")
        return [item if is_object(item) and read == item else read for read in self._texts(text, read)]

    def flag(self, value: object, place: str) -> bool:
        """Read a boolean."""
        if isinstance(value, bool):
            return value
        read = {None: False, 0: False, 1: True, "false": False, "true": True}
        key = value.lower() if isinstance(value, str) else value
        if (key is None or isinstance(key, (str, int))) and key in read:
            return read[key]
        raise malformed(self._method, f"true or false as {place}")

    def members(self, value: object, place: str) -> Json:
        """Read an object; some languages write an empty one as an empty list."""
        if value is None or value == []:
            return {}
        if not is_object(value):
            raise malformed(self._method, f"an object as {place}")
        return value

    def _block(self, item: object, place: str) -> list[Json]:
        if isinstance(item, str):
            return [{"type": "text", "text": item}]
        if (
            is_object(item)
            and len(item) == 2
            and item.get("type") == "text"
            and type(item.get("text")) is str
        ):
            return [item]
        block = self._object(item, place, f"a content block as {place}")
        kind = self._text(block.get("type") or _kind(block), f"{place}.type", "a text")
        if kind == "text":
            if "text" not in block and block.keys() - {"type", "annotations", "_meta"}:
                raise malformed(self._method, f"a string as {place}.text")
            blocks = self._texts(block.get("text"), {**block, "type": kind})
        elif kind in ("image", "audio"):
            data, mime_type = self._base64(block.get("data"), f"{place}.data")
            named = block.get("mimeType") or mime_type or _BINARY
            blocks = [{**block, "type": kind, "data": data, "mimeType": named}]
        elif kind == "resource":
            resources = self.contents(block.get("resource"), f"{place}.resource", None)
            blocks = [{**block, "type": kind, "resource": each} for each in resources]
        elif kind == "resource_link":
            uri = self._text(block.get("uri"), f"{place}.uri", "a URI")
            blocks = [{"name": uri, **block, "type": kind, "uri": uri}]
        else:
            blocks = [{**block, "type": kind}]
        return [item if is_object(item) and block == item else block for block in blocks]

    def _object(self, item: object, place: str, expected: str) -> Json:
        """Return an object without members that are null, as their absence means the same; check optional ones."""
        if not is_object(item):
            raise malformed(self._method, expected)
        read = {name: value for name, value in item.items() if value is not None}
        for name in _OPTIONAL_TEXTS & read.keys():
            read[name] = self._text(read[name], f"{place}.{name}", "a text")
        for name in _OPTIONAL_OBJECTS & read.keys():
            read[name] = self.members(read[name], f"{place}.{name}")
        return read

    def _text(self, value: object, place: str, expected: str) -> str:
        """Read a text, or a list of one."""
        if is_array(value) and len(value) == 1:
            value = value[0]
        if not isinstance(value, str):
            raise malformed(self._method, f"{expected} as {place}")
        return value

    def _texts(self, text: object, holder: Json) -> list[Json]:
        """Return what holds a text, as often as there are texts; other values become their JSON."""
        if isinstance(text, str):
            return [{**holder, "text": text}]
        if is_array(text) and text and all(isinstance(each, str) for each in text):
            return [{**holder, "text": each} for each in text]
        if text is None or text == []:
            return [{**holder, "text": ""}]
        return [{**holder, "text": json.dumps(text, ensure_ascii=False)}]

    def _base64(self, value: object, place: str) -> tuple[str, str]:
        """Return base64 in its standard form, and the MIME type of a data URL."""
        text = self._text(value, place, "base64")
        if is_plain_base64(text):
            return text, ""
        try:
            data = decode_base64_text(text)
        except ValueError:
            raise malformed(self._method, f"base64 as {place}") from None
        mime_type = text[5:].partition(",")[0].partition(";")[0].strip() if is_data_url(text) else ""
        return b64encode(data).decode("ascii"), mime_type


def _kind(block: Json) -> str | None:
    """Return the type of a block that does not name it, if its members leave only one."""
    data_type = block.get("mimeType") or str(block.get("data"))[5:]
    kinds = {
        "text": "text" in block,
        "resource": "resource" in block,
        "resource_link": "uri" in block and "blob" not in block,
        "image": "data" in block and str(data_type).startswith("image/"),
        "audio": "data" in block and str(data_type).startswith("audio/"),
    }
    found = [kind for kind, is_possible in kinds.items() if is_possible]
    return found[0] if len(found) == 1 else None


def _is_base64_of(blob: str, text: str) -> bool:
    try:
        return decode_base64_text(blob).decode() == text
    except ValueError:
        return False


# Base64


def decode_base64_text(text: str) -> bytes:
    """Decode base64 in any unambiguous form.

    RFC 4648 allows a decoder to ignore line ends (3.1), to accept missing padding (3.2) and the URL-safe alphabet (5).
    A data URL (RFC 2397) may contain percent-encoded bytes in place of base64.

    Args:
        text: The text as it was received.

    Raises:
        ValueError: It mixes both alphabets, or is not base64.
    """
    packed = text
    if is_data_url(text):
        head, comma, body = text.partition(",")
        if not comma:
            raise ValueError("a data URL needs a comma before its data")
        data = unquote_to_bytes(body)
        if not head.lower().rstrip().endswith(";base64"):
            return data
        packed = data.decode("ascii")
    packed = "".join(packed.split())
    if "-" in packed or "_" in packed:
        if "+" in packed or "/" in packed:
            raise ValueError("base64 uses either + and /, or - and _, not both")
        packed = packed.translate(_URL_SAFE_TO_STANDARD)
    digits = packed.rstrip("=")
    padded = digits + "=" * (-len(digits) % 4)
    if len(packed) - len(digits) > 2 or not is_plain_base64(padded):
        raise ValueError("not base64")
    return a2b_base64(padded)


def is_data_url(text: str) -> bool:
    """Return True if a text is a data URL."""
    return text[:5].lower() == "data:"


def is_plain_base64(text: str) -> bool:
    """Return True if a text is base64 in its standard form (RFC 4648, section 4), without decoding it."""
    if len(text) % 4 or not text.isascii():
        return False
    rest = text.encode("ascii").translate(None, _BASE64_DIGITS)
    return rest in (b"", b"=", b"==") and text.endswith(rest.decode())
