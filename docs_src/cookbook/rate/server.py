from mcpkit import Server
from mcpkit.middleware import RateLimit

server = Server("translations", version="1.0.0")

# Three calls at once, then one every ten seconds, for each client.
server.middleware(RateLimit(0.1, burst=3, methods=["tools/call"]))

WORDS = {"bread": "brød", "milk": "melk"}


@server.tool(annotations={"readOnlyHint": True})
def translate(word: str) -> str:
    """Translate an English word to Norwegian."""
    return WORDS.get(word, word)


app = server.asgi()

if __name__ == "__main__":
    server.run()
