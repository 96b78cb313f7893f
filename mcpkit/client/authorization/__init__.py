"""OAuth for clients: obtaining, refreshing and storing the tokens for protected servers.

An `Authorization` (`authorization.py`) is the value of `Client(url, auth=...)`. It stores and refreshes tokens, and its
subclasses obtain them, one for each kind of grant. `roles.py` has the interfaces of the parts: the browser that shows
pages, the client authentication at the token endpoint, and the proofs of possession (DPoP).

Internal: the public names are exported by `mcpkit.client`.
"""
