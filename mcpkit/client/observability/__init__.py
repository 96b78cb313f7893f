"""What is seen of a client's messages: by people, in files, in traces, in the server's log.

Internal: what is public of it stands in `mcpkit`.
"""
