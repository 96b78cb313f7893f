"""The protocol without I/O: JSON-RPC, the protocol versions, the envelopes of requests, and HTTP headers.

Everything in this package takes and returns plain values and never awaits.

Internal: all but `revisions` may change at any time.
"""
