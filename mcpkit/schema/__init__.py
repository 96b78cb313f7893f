"""Type hints and docstrings to JSON Schema 2020-12, and validators that accept exactly what it accepts.

Internal: it may change at any time.
"""

from __future__ import annotations

from .._utils.exceptions import UnresolvedHint
from ..protocol.objects import MirroredParameter
from .argument_validation_and_repair import Arguments
from .function_signatures import Parameter, Signature
from .structured_output import Output

__all__ = ["Arguments", "MirroredParameter", "Output", "Parameter", "Signature", "UnresolvedHint"]
