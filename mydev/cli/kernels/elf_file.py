"""Reads an ELF file without loading it: that would run its code.

Reads only what the checks of kernel libraries need, of 64-bit little-endian files. Every read is bounded by the file,
so a truncated or hostile file raises :class:`ElfError`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

_MACHINES = {0x3E: "x86-64", 0xB7: "aarch64", 0xF3: "riscv"}
_SHARED_OBJECT = 3
_SEGMENT_LOAD, _SEGMENT_DYNAMIC, _SEGMENT_STACK = 1, 2, 0x6474E551
_EXECUTABLE = 1
_SECTION_SYMBOLS = 11
_NEEDED, _STRTAB, _SYMTAB, _RPATH, _TEXTREL, _RUNPATH = 1, 5, 6, 15, 22, 29
_WEAK = 2
_SYMBOL_BYTES = 24


class ElfError(ValueError):
    """The file is not what is expected; the message says why."""


@dataclass
class ElfFile:
    """The facts."""

    machine: str
    executable_stack: bool
    text_relocations: bool = False
    needed: list[str] = field(default_factory=list)  #: other libraries, as they are named
    search_paths: list[str] = field(default_factory=list)  #: DT_RPATH and DT_RUNPATH, entry by entry
    exported: list[str] = field(default_factory=list)
    undefined: list[str] = field(default_factory=list)  #: strong references to symbols of others


def read_elf(path: Path) -> ElfFile:
    """Reads a shared object. Raises ElfError, and OSError where it cannot be read."""
    if path.exists() and not path.is_file():
        raise ElfError("is no regular file")
    data = path.read_bytes()
    if data[:4] != b"\x7fELF":
        raise ElfError("is no ELF file")
    if data[4:6] != b"\x02\x01":
        raise ElfError("is not a 64-bit little-endian ELF file")
    try:
        return _Reader(data).read()
    except ElfError:
        raise
    except (struct.error, ValueError) as error:
        raise ElfError(f"is truncated or damaged: {error}") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._loads: list[tuple[int, int, int]] = []  # address, offset, bytes

    def read(self) -> ElfFile:
        kind, machine = self._unpack("<HH", 16)
        if kind != _SHARED_OBJECT:
            raise ElfError(f"is no shared object (its ELF type is {kind})")
        (table,) = self._unpack("<Q", 32)
        entry_bytes, count = self._unpack("<HH", 54)
        stack, dynamic = _EXECUTABLE, None
        for index in range(count):
            kind, flags, offset, address, _, size = self._unpack("<IIQQQQ", table + index * entry_bytes)
            if kind == _SEGMENT_LOAD:
                if offset + size > len(self._data):
                    raise ElfError(f"is truncated: it has {len(self._data)} bytes and needs {offset + size}")
                self._loads.append((address, offset, size))
            elif kind == _SEGMENT_DYNAMIC:
                dynamic = (offset, size)
            elif kind == _SEGMENT_STACK:
                stack = flags
        result = ElfFile(_MACHINES.get(machine, f"machine {machine}"), bool(stack & _EXECUTABLE))
        if dynamic is None:
            raise ElfError("has no dynamic section, so nothing can be looked up in it")
        self._read_dynamic(*dynamic, result)
        return result

    def _read_dynamic(self, offset: int, size: int, result: ElfFile) -> None:
        entries = [self._unpack("<qQ", offset + at) for at in range(0, size, 16)]
        values = {tag: value for tag, value in entries if tag != 0}
        if _STRTAB not in values or _SYMTAB not in values:
            return
        strings, symbols = self._offset(values[_STRTAB]), self._offset(values[_SYMTAB])
        result.needed = [self._string(strings + value) for tag, value in entries if tag == _NEEDED]
        paths = [self._string(strings + value) for tag, value in entries if tag in (_RPATH, _RUNPATH)]
        result.search_paths = [part for path in paths for part in path.split(":")]
        result.text_relocations = _TEXTREL in values
        for index in range(1, self._symbol_count()):
            name, info, _, section, _, _ = self._unpack("<IBBHQQ", symbols + index * _SYMBOL_BYTES)
            if section != 0:
                result.exported.append(self._string(strings + name))
            elif info >> 4 != _WEAK:
                result.undefined.append(self._string(strings + name))

    def _symbol_count(self) -> int:
        """Entries of the table of dynamic symbols. Only section headers say it, which a stripped file still has."""
        (table,) = self._unpack("<Q", 40)
        entry_bytes, count = self._unpack("<HH", 58)
        for index in range(count):
            (kind,) = self._unpack("<I", table + index * entry_bytes + 4)
            if kind == _SECTION_SYMBOLS:
                return self._unpack("<Q", table + index * entry_bytes + 32)[0] // _SYMBOL_BYTES
        return 0

    def _unpack(self, layout: str, offset: int) -> tuple[int, ...]:
        return struct.unpack_from(layout, self._data, offset)

    def _offset(self, address: int) -> int:
        for begin, offset, size in self._loads:
            if begin <= address < begin + size:
                return offset + address - begin
        raise ElfError(f"is damaged: the address {address:#x} lies in no part of it")

    def _string(self, offset: int) -> str:
        return self._data[offset : self._data.index(0, offset)].decode("utf-8", "replace")
