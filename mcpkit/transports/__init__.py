"""How messages travel: the stdio transport, and what a transport of one's own is made of."""
