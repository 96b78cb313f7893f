from mcpkit import Access, Context, Principal, Server

server = Server("notes", secret_key="change me, I am not random")


def is_admin(user: Principal) -> bool:
    return "admin" in user.scopes


@server.tool
def search(text: str) -> list[str]:
    """Search all notes."""
    return [f"a note on {text}"]


@server.tool(access=Access(visible=is_admin))
def erase(note: str, ctx: Context) -> str:
    """Erase a note."""
    return f"{ctx.principal.id} erased {note}"


if __name__ == "__main__":
    server.run()
