from mcpkit import Server

server = Server("notes", version="1.0.0")

NOTES = {"shopping": "Milk and bread", "garden": "Water the tomatoes"}


@server.tool
def search_notes(text: str) -> list[str]:
    """Find the titles of notes that contain a text.

    Args:
        text: The text to search for, in upper or lower case.
    """
    return [
        title for title, body in NOTES.items() if text.lower() in body.lower()
    ]


if __name__ == "__main__":
    server.run()
