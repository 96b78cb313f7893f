"""Names of tools, arguments and prompts."""

from __future__ import annotations

from collections.abc import Iterator

from ..finding import Found, Looked, rule
from ..hosts import ARGUMENT, GEMINI_NAME, LETTERS, LIMITS, SPECIFIED, schema_of


@rule("name-not-specified", "error")
def not_specified(looked: Looked) -> Iterator[Found]:
    """The name of a tool is not as the specification has it."""
    for where, tool in looked.each("tool"):
        if not SPECIFIED.fullmatch(str(tool.get("name"))):
            yield Found(
                where, "hosts refuse such names, or change them", "1 to 128 of A-Z, a-z, 0-9, _, - and dots"
            )


@rule("name-letters", "warning")
def letters(looked: Looked) -> Iterator[Found]:
    """The name of a tool has letters that OpenAI's and Anthropic's interfaces refuse, such as dots."""
    for where, tool in looked.each("tool"):
        name = str(tool.get("name"))
        if SPECIFIED.fullmatch(name) and not LETTERS.fullmatch(name):
            yield Found(where, "OpenAI and Anthropic take A-Z, a-z, 0-9, _ and - alone", "write _ for a dot")


@rule("name-begins-oddly", "warning")
def begins_oddly(looked: Looked) -> Iterator[Found]:
    """The name of a tool begins with neither a letter nor an underscore, as Gemini wants it."""
    for where, tool in looked.each("tool"):
        name = str(tool.get("name"))
        if SPECIFIED.fullmatch(name) and not GEMINI_NAME.fullmatch(name):
            yield Found(where, "Gemini refuses it", "begin it with a letter")


@rule("name-too-long", "warning")
def too_long(looked: Looked) -> Iterator[Found]:
    """The name of a tool, with what a host puts in front, is longer than the host takes."""
    for surface in looked.surfaces:
        for tool in surface.tools:
            name = str(tool.get("name"))
            for limit in LIMITS.values():
                whole = limit.prefix.format(server=surface.server) + name
                if len(whole) > limit.most:
                    yield Found(
                        f"{looked.prefix(surface)}tool {name}",
                        f"{limit.host} calls it {whole}, of {len(whole)} characters, takes {limit.most}, and"
                        f" {limit.outcome}",
                        f"shorten it by {len(whole) - limit.most}",
                    )


@rule("argument-name", "warning")
def argument(looked: Looked) -> Iterator[Found]:
    """The name of an argument is one that Gemini refuses."""
    for where, tool in looked.each("tool"):
        for name in schema_of(schema_of(tool), "properties"):
            if not ARGUMENT.fullmatch(name):
                yield Found(
                    where,
                    f"Gemini refuses the argument {name}",
                    "letters, digits and _, at most 64, no digit first",
                )


@rule("names-alike", "warning")
def alike(looked: Looked) -> Iterator[Found]:
    """Two names differ by case, underscores, hyphens or dots alone."""
    for kind in ("tool", "prompt"):
        for surface in looked.surfaces:
            known: dict[str, str] = {}
            for item in surface.tools if kind == "tool" else surface.prompts:
                name = str(item.get("name"))
                other = known.setdefault(_bare(name), name)
                if other != name:
                    where = f"{looked.prefix(surface)}{kind} {name}"
                    yield Found(where, f"models mistake it for {other}", "give one of them another name")


@rule("name-repeated", "error")
def repeated(looked: Looked) -> Iterator[Found]:
    """A server lists the same name twice."""
    for surface in looked.surfaces:
        for kind, items in (("tool", surface.tools), ("prompt", surface.prompts)):
            names = [str(item.get("name")) for item in items]
            for name in dict.fromkeys(name for name in names if names.count(name) > 1):
                where = f"{looked.prefix(surface)}{kind} {name}"
                yield Found(where, "one of them can never be called", "give them names of their own")


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
                        f"{' and '.join([surface.server, *dict.fromkeys(others)])} have it; some hosts show one alone",
                        "say in the name what it is about",
                    )


@rule("prompt-named-as-tool", "advice")
def prompt_as_tool(looked: Looked) -> Iterator[Found]:
    """A prompt has the name of a tool."""
    for surface in looked.surfaces:
        tools = {_bare(str(tool.get("name"))) for tool in surface.tools}
        for prompt in surface.prompts:
            if _bare(str(prompt.get("name"))) in tools:
                where = f"{looked.prefix(surface)}prompt {prompt.get('name')}"
                yield Found(where, "hosts that list both show the name twice", "give it another name")


def _bare(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter not in "_-.")
