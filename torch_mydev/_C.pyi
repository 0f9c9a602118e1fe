"""The native part. Private: its signatures are those of csrc/python; the modules that call it say what they mean."""

from typing import Any

def __getattr__(name: str) -> Any: ...
