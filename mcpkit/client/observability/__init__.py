"""Logs, traces, recordings and telemetry of a client.

Internal: the public names are exported by `mcpkit.client`.
"""
