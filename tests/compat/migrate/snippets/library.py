import mcp.types as types
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.resources import TextResource

mcp = FastMCP("library", auth_server_provider=None, dependencies=["httpx"])

BOOKS = {"emma": "Emma", "dracula": "Dracula"}

mcp.add_resource(TextResource(uri="library://hours", name="hours", text="9-17"))


@mcp.resource("library://books/{key}", mime_type="text/plain")
def book(key: str) -> str:
    """One book."""
    if key not in BOOKS:
        raise ValueError(f"There is no book {key}")
    return BOOKS[key]


@mcp.completion()
async def complete(
    ref: types.PromptReference | types.ResourceTemplateReference,
    argument: types.CompletionArgument,
    context: types.CompletionContext | None,
) -> types.Completion | None:
    return types.Completion(values=[key for key in BOOKS if key.startswith(argument.value)])


if __name__ == "__main__":
    mcp.run()
