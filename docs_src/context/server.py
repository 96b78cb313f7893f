from mcpkit import Context, Server

server = Server("archive")


@server.tool
async def describe_request(ctx: Context) -> str:
    """Describe the request."""
    return f"{ctx.method} by {ctx.client.name} in {ctx.protocol_version}"


if __name__ == "__main__":
    server.run()
