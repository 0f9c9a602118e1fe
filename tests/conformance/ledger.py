"""What is known to raise: declared case by case, so that a case that starts to pass fails the suite until it is removed.

Keys are OpInfo names with their variant (``name`` or ``name.variant``); values say why. Nothing here may be a wrong value
or a crash: those are never acceptable.
"""

from __future__ import annotations

#: Forward does not run on the device.
FORWARD_RAISES: dict[str, str] = {}

#: Backward does not run on the device.
BACKWARD_RAISES: dict[str, str] = {}

#: Contents are undefined: only shape, dtype, strides and device are compared.
UNDEFINED_CONTENTS: frozenset[str] = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)
