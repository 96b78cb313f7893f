"""Whether a client gets on with the server as it is meant to, from the first message to the last list."""

from __future__ import annotations

import logging

from ...._utils.exceptions import ProtocolError, TransportError
from ..findings.finding import Seen, quoted
from ..patients.patient import Patient, there


async def client(patient: Patient) -> Seen:
    """Connect as `Client` does, which asks for the newest revision first, and read the lists that there are."""
    seen = Seen("client")
    if patient.is_divided:
        return seen
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # what it would tell of has been found
    try:
        async with there(patient.client)() as connected:
            listed = {
                "tools/list": connected.list_tools,
                "resources/list": connected.list_resources,
                "resources/templates/list": connected.list_resource_templates,
                "prompts/list": connected.list_prompts,
            }
            for method, items in patient.lists.items():
                if items and method not in patient.looped:
                    await listed[method]()
            seen.summary = f"the mcpkit client connected with revision {connected.protocol_version}"
    except (ProtocolError, TransportError, TimeoutError, ValueError, TypeError) as error:
        seen.find("client-fails", problem=quoted(str(error), 300))
    finally:
        logging.disable(before)
    return seen
