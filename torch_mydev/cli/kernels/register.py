"""Loads a library of kernels as a program would: for ``mydev kernels check``, in a process of its own."""

from __future__ import annotations

import json


def main(path: str) -> None:
    """Prints one JSON object as the last line: the kernels with their operators' schemas, or the error."""
    from torch_mydev import _autoload, custom_call

    try:
        _autoload.register_for_program()
        library = custom_call.load_custom_calls(path)
        result: dict[str, object] = {
            "kernels": [[name, custom_call.kernel_info(name)["schema"]] for name in library.kernels]
        }
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    print()
    print(json.dumps(result))
