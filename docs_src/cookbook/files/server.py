import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from mcpkit import Server, resource_dir

server = Server("handbook", version="1.0.0")

FOLDER = Path(os.environ.get("HANDBOOK", "handbook")).absolute()
MAX_HITS = 20
MAX_BYTES = 1_000_000

server.include(
    resource_dir(FOLDER, "handbook://pages", description="Handbook pages.")
)


@dataclass
class Hit:
    uri: str
    line: int
    text: str


@server.tool(annotations={"readOnlyHint": True})
def search_pages(text: str) -> list[Hit]:
    """Find lines of the handbook that contain a text.

    Read a page that was found as a resource, by its uri.

    Args:
        text: The text to search for, in upper or lower case.
    """
    pattern = re.compile(re.escape(text), re.IGNORECASE)
    hits: list[Hit] = []
    for file in sorted(FOLDER.rglob("*.md")):
        path = file.relative_to(FOLDER)
        hidden = any(part.startswith(".") for part in path.parts)
        if hidden or file.is_symlink() or file.stat().st_size > MAX_BYTES:
            continue
        lines = file.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            if pattern.search(line):
                uri = f"handbook://pages/{quote(path.as_posix())}"
                hits.append(Hit(uri, number, line[:200]))
                if len(hits) == MAX_HITS:
                    return hits
    return hits


if __name__ == "__main__":
    server.run()
