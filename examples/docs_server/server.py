"""The documentation of mcpkit as an MCP server: its pages are resources, and a tool searches them."""

import os
import re
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from mcpkit import Server, ToolError, resource_dir

DOCS = Path(os.environ.get("DOCS", Path(__file__).parents[2] / "docs"))
PREFIX = "docs://mcpkit"

server = Server(
    "mcpkit-docs",
    instructions="Search the documentation of mcpkit, then read the page that was found.",
)
server.include(resource_dir(DOCS, PREFIX, description="Pages of the documentation, as Markdown."))


@dataclass
class Section:
    """A section of a page."""

    uri: str
    page: str
    heading: str
    text: str


def read_sections(path: Path) -> list[Section]:
    """Return the sections of a page: the parts between its headings."""
    uri = f"{PREFIX}/{path.relative_to(DOCS).as_posix()}"
    first, *parts = re.split(r"^##+ (.+)\n", path.read_text("utf-8"), flags=re.MULTILINE)
    page = first.partition("\n")[0].removeprefix("# ")
    pairs = zip([page, *parts[::2]], [first, *parts[1::2]], strict=True)
    return [Section(uri, page, heading, text.strip()) for heading, text in pairs]


@server.tool(annotations={"readOnlyHint": True})
def search(words: str, limit: int = 5) -> list[Section]:
    """Search the documentation. It finds sections with all words, those with a word in a heading first.

    Args:
        words: Words to search for, such as "cancel timeout".
        limit: The number of sections to return.
    """
    wanted = re.findall(r"\w+", words.lower())
    if not wanted:
        raise ToolError("words has no word. Pass at least one")
    ranked: list[tuple[int, Section]] = []
    for section in (found for path in sorted(DOCS.rglob("*.md")) for found in read_sections(path)):
        page, heading, text = (part.lower() for part in astuple(section)[1:])
        if all(word in page + heading + text for word in wanted):
            score = sum(9 * heading.count(word) + 5 * page.count(word) + text.count(word) for word in wanted)
            ranked.append((score, replace(section, text=section.text[:500])))
    return [section for _, section in sorted(ranked, key=lambda pair: -pair[0])[:limit]]


if __name__ == "__main__":
    server.run()
