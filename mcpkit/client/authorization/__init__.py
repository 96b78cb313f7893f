"""How a client gets the tokens that protected servers want.

An `Authorization` (`authorization.py`) is what stands in `Client(url, auth=...)`: it keeps tokens, refreshes them, and
has its subclasses obtain others, one for each kind of grant. Those who take part have their roles in `roles.py`: the
browser that shows pages, what says to the token endpoint who the client is, and what proves that tokens are its own.

Internal: what is public is named in `mcpkit`.
"""
