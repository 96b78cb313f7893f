from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.prompts import base
from mcp.types import EmbeddedResource, PromptMessage, TextContent, TextResourceContents
from pydantic import AnyUrl

mcp = FastMCP("kitchen")


@mcp.prompt(title="Review a recipe")
def review(name: str) -> list[base.Message]:
    return [
        base.UserMessage(f"Review my recipe for {name}."),
        base.AssistantMessage("Gladly. May I see it?"),
        base.UserMessage(
            content=EmbeddedResource(
                type="resource",
                resource=TextResourceContents(
                    uri=AnyUrl("recipe://soup"), text="1 onion, 2 carrots", mimeType="text/plain"
                ),
            ),
        ),
    ]


@mcp.prompt()
def name_dish(ingredients: str) -> list[PromptMessage]:
    """Name a dish."""
    return [PromptMessage(role="user", content=TextContent(type="text", text=f"I have {ingredients}."))]


if __name__ == "__main__":
    mcp.run()
