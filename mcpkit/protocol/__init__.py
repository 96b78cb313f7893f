"""The wire, without I/O: JSON-RPC, the revisions and the two eras.

Everything in this package takes and returns plain values and never awaits.

Internal: all but `revisions` may change at any time.
"""
