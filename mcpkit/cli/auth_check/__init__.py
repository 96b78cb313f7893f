"""Checks which clients can log in at a server. Internal: the public names are exported by `mcpkit.doctor`."""
