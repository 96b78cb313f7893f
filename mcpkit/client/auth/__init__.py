"""OAuth for clients: `Client(url, auth=...)`. Internal: the public names are exported by `mcpkit.client`."""
