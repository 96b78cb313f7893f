"""Names of tools, arguments and prompts."""

from __future__ import annotations

from collections.abc import Iterator

from ..finding import Found, Looked, rule
from ..hosts import ARGUMENT, GEMINI_NAME, LETTERS, LIMITS, SPECIFIED, schema_of


@rule("name-not-specified", "error")
def not_specified(looked: Looked) -> Iterator[Found]:
    """The name of a tool does not match the specification."""
    for where, tool in looked.each("tool"):
        if not SPECIFIED.fullmatch(str(tool.get("name"))):
            yield Found(
                where, "hosts reject or change such names", "use 1 to 128 of A-Z, a-z, 0-9, _, - and dots"
            )


@rule("name-letters", "warning")
def letters(looked: Looked) -> Iterator[Found]:
    """The name of a tool has characters that OpenAI's and Anthropic's APIs reject, such as dots."""
    for where, tool in looked.each("tool"):
        name = str(tool.get("name"))
        if SPECIFIED.fullmatch(name) and not LETTERS.fullmatch(name):
            yield Found(
                where,
                "OpenAI and Anthropic accept only A-Z, a-z, 0-9, _ and - in names",
                "use _ instead of other characters",
            )


@rule("name-begins-oddly", "warning")
def begins_oddly(looked: Looked) -> Iterator[Found]:
    """The name of a tool does not begin with a letter or an underscore, as Gemini requires."""
    for where, tool in looked.each("tool"):
        name = str(tool.get("name"))
        if SPECIFIED.fullmatch(name) and not GEMINI_NAME.fullmatch(name):
            yield Found(
                where,
                "Gemini rejects a name that does not begin with a letter or _",
                "begin it with a letter",
            )


@rule("name-too-long", "warning")
def too_long(looked: Looked) -> Iterator[Found]:
    """The name of a tool, with the prefix that a host adds, is longer than the host accepts."""
    for surface in looked.surfaces:
        for tool in surface.tools:
            name = str(tool.get("name"))
            for limit in LIMITS.values():
                whole = limit.prefix.format(server=surface.server) + name
                if len(whole) > limit.most:
                    yield Found(
                        f"{looked.prefix(surface)}tool {name}",
                        f"{limit.host} calls it {whole} ({len(whole)} characters), accepts at most {limit.most}, and"
                        f" {limit.outcome}",
                        f"shorten the name by {len(whole) - limit.most} characters",
                    )


@rule("argument-name", "warning")
def argument(looked: Looked) -> Iterator[Found]:
    """The name of an argument is one that Gemini rejects."""
    for where, tool in looked.each("tool"):
        for name in schema_of(schema_of(tool), "properties"):
            if not ARGUMENT.fullmatch(name):
                yield Found(
                    where,
                    f"Gemini rejects the argument name {name}",
                    "use letters, digits and _, at most 64, and no digit first",
                )


@rule("names-alike", "warning")
def alike(looked: Looked) -> Iterator[Found]:
    """Two names differ only in case, underscores, hyphens or dots."""
    for kind in ("tool", "prompt"):
        for surface in looked.surfaces:
            known: dict[str, str] = {}
            for item in surface.tools if kind == "tool" else surface.prompts:
                name = str(item.get("name"))
                other = known.setdefault(_bare(name), name)
                if other != name:
                    where = f"{looked.prefix(surface)}{kind} {name}"
                    yield Found(where, f"models confuse it with {other}", "rename one of them")


@rule("name-repeated", "error")
def repeated(looked: Looked) -> Iterator[Found]:
    """A server lists the same name twice."""
    for surface in looked.surfaces:
        for kind, items in (("tool", surface.tools), ("prompt", surface.prompts)):
            names = [str(item.get("name")) for item in items]
            for name in dict.fromkeys(name for name in names if names.count(name) > 1):
                where = f"{looked.prefix(surface)}{kind} {name}"
                yield Found(
                    where,
                    "the list has this name twice, so one of them cannot be called",
                    "give each a unique name",
                )


@rule("name-of-several-servers", "warning")
def of_several(looked: Looked) -> Iterator[Found]:
    """Several servers of a configuration have tools or prompts of one name."""
    for kind in ("tool", "prompt"):
        owners: dict[str, list[str]] = {}
        for surface in looked.surfaces:
            for item in surface.tools if kind == "tool" else surface.prompts:
                owners.setdefault(_bare(str(item.get("name"))), []).append(surface.server)
        for surface in looked.surfaces:
            for item in surface.tools if kind == "tool" else surface.prompts:
                others = [each for each in owners[_bare(str(item.get("name")))] if each != surface.server]
                if others and others[0] > surface.server:
                    yield Found(
                        f"{kind} {item.get('name')}",
                        f"{' and '.join([surface.server, *dict.fromkeys(others)])} have it, and some hosts show one",
                        "add the subject to the name",
                    )


@rule("prompt-named-as-tool", "advice")
def prompt_as_tool(looked: Looked) -> Iterator[Found]:
    """A prompt has the name of a tool."""
    for surface in looked.surfaces:
        tools = {_bare(str(tool.get("name"))) for tool in surface.tools}
        for prompt in surface.prompts:
            if _bare(str(prompt.get("name"))) in tools:
                where = f"{looked.prefix(surface)}prompt {prompt.get('name')}"
                yield Found(where, "a tool has the same name, and some hosts list both", "rename it")


def _bare(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in "_-.")
