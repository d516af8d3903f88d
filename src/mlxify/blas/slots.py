"""Where a loaded library keeps the addresses of functions that it calls in others, and how to change them.

A call from one shared library into another goes through a *slot*, a word in the caller's memory that the dynamic
linker fills. Writing another function of the same signature there redirects the calls of that one library; nothing
else in the process sees it. Linux, 64-bit ELF on x86-64 and aarch64. Everything is read from the memory of the loaded
library, by the tables that the linker itself has used, so a file that was replaced meanwhile does no harm.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

# From <dlfcn.h> and <elf.h>.
RTLD_NOLOAD, RTLD_DI_LINKMAP = 4, 2
DT_PLTRELSZ, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_STRSZ, DT_JMPREL = 2, 5, 6, 7, 8, 10, 23
DT_FINI_ARRAYSZ, DT_RELACOUNT = 28, 0x6FFFFFF9
SLOT_KINDS = {"x86_64": (6, 7), "aarch64": (1025, 1026)}
"""GLOB_DAT and JUMP_SLOT: relocations whose whole value is the address of a symbol."""
RELATIVE = {"x86_64": 8, "aarch64": 1027}
"""Relocations whose value is an address in the library itself."""
CPLUSPLUS = b"_Z"
RELOCATION, SYMBOL, ENTRY = struct.Struct("<QQq"), struct.Struct("<IBBHQQ"), struct.Struct("<qQ")
PROT_READ, PROT_WRITE, PROT_EXEC = 1, 2, 4
PAGE = os.sysconf("SC_PAGE_SIZE")


class SlotError(Exception):
    """The library is not loaded, or its memory is not as expected; nothing was changed."""


class LinkMap(ctypes.Structure):
    """struct link_map, the public part: what `dlinfo` says of a loaded library."""

    _fields_ = (("base", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dynamic", ctypes.c_size_t))


class Region(NamedTuple):
    """One line of /proc/self/maps."""

    start: int
    end: int
    protection: int


def function_slots(path: str, machine: str) -> dict[str, list[int]]:
    """The slots of the library at `path`, which must be loaded: addresses by the name of the function, C++ left out."""
    if machine not in SLOT_KINDS or struct.calcsize("P") != 8:
        raise SlotError(f"slots of {machine} are not known")
    base, tables = _tables(path)
    places = list(_relocations(base, tables, SLOT_KINDS[machine]))
    count = 1 + max((symbol for _, symbol in places), default=-1)
    symbols = ctypes.string_at(tables[DT_SYMTAB], count * SYMBOL.size)
    names = ctypes.string_at(tables[DT_STRTAB], tables[DT_STRSZ])
    found: dict[str, list[int]] = {}
    for address, symbol in places:
        at, _, _, section, _, _ = SYMBOL.unpack_from(symbols, symbol * SYMBOL.size)
        name = names[at : names.find(b"\0", at)]
        if section == 0 and name and not name.startswith(CPLUSPLUS):
            found.setdefault(name.decode("ascii", "replace"), []).append(address)
    return found


def own_handle(path: str, machine: str) -> int | None:
    """A loaded library's name for itself in the C runtime, `__dso_handle`: the word that holds its own address."""
    base, tables = _tables(path)
    for offset, info, addend in _entries_of(tables, DT_RELA, DT_RELASZ):
        if info == RELATIVE[machine] and addend == offset:
            return base + offset
    return None


def finalizer_slots(path: str) -> list[int]:
    """The address of the size of the list of what a loaded library does when the process ends; 0 there means nothing."""
    _, dynamic = _link_map(path)
    return [at + ENTRY.size // 2 for at, tag, _ in _entries(dynamic) if tag == DT_FINI_ARRAYSZ]


def write(words: dict[int, int]) -> None:
    """Write words (values) at addresses (keys). All, or none with a SlotError.

    One aligned word is written at once, so that another thread calls the old function or the new one.
    """
    regions, closed = list(_regions()), {}
    for address in words:
        region = next((r for r in regions if r.start <= address < r.end), None)
        if region is None or address % 8:
            raise SlotError("a slot lies outside of the library's memory")
        if not region.protection & PROT_WRITE:
            closed[_page(address)] = region.protection
    opened = []
    try:
        for page, protection in closed.items():
            _protect(page, protection | PROT_WRITE)
            opened.append((page, protection))
        for address, word in words.items():
            ctypes.c_size_t.from_address(address).value = word
    finally:
        for page, protection in opened:
            _protect(page, protection)


def _link_map(path: str) -> tuple[int, int]:
    """Where a loaded library begins in memory, and where its dynamic section does."""
    try:
        handle = ctypes.CDLL(path, mode=RTLD_NOLOAD | os.RTLD_LAZY)._handle
        dlinfo = ctypes.CDLL(None).dlinfo
    except (OSError, AttributeError) as error:
        raise SlotError(f"{path} is not loaded ({error})") from error
    dlinfo.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    pointer = ctypes.POINTER(LinkMap)()
    if dlinfo(handle, RTLD_DI_LINKMAP, ctypes.byref(pointer)) != 0 or not pointer:
        raise SlotError(f"the dynamic linker says nothing about {path}")
    return pointer.contents.base, pointer.contents.dynamic


def _entries(at: int) -> Iterator[tuple[int, int, int]]:
    """(address, tag, value) of the entries of a dynamic section."""
    while True:
        tag, value = ENTRY.unpack(ctypes.string_at(at, ENTRY.size))
        if tag == 0:
            return
        yield at, tag, value
        at += ENTRY.size


def _tables(path: str) -> tuple[int, dict[int, int]]:
    """The address where a loaded library begins, and its dynamic section as addresses and sizes."""
    base, dynamic = _link_map(path)
    tables: dict[int, int] = {}
    for _, tag, value in _entries(dynamic):
        # glibc replaces offsets by addresses in its copy, other linkers do not.
        is_address = tag in (DT_STRTAB, DT_SYMTAB, DT_RELA, DT_JMPREL)
        tables[tag] = value + base if is_address and value < base else value
    if not {DT_STRTAB, DT_STRSZ, DT_SYMTAB} <= tables.keys():
        raise SlotError(f"{path} has no symbols")
    return base, tables


def _relocations(base: int, tables: dict[int, int], kinds: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """(address of the slot, index of the symbol)"""
    local = tables.get(DT_RELACOUNT, 0)  # relocations within the library, which come first
    for table, size, first in ((DT_JMPREL, DT_PLTRELSZ, 0), (DT_RELA, DT_RELASZ, local)):
        for offset, info, addend in _entries_of(tables, table, size, first):
            if info & 0xFFFFFFFF in kinds and addend == 0:
                yield base + offset, info >> 32


def _entries_of(
    tables: dict[int, int], table: int, size: int, first: int = 0
) -> Iterator[tuple[int, int, int]]:
    """(offset, symbol and kind, addend) of the relocations of a table from the one at `first`."""
    count = tables.get(size, 0) // RELOCATION.size - first
    if table not in tables or count <= 0:
        return iter(())
    start = tables[table] + first * RELOCATION.size
    return RELOCATION.iter_unpack(ctypes.string_at(start, count * RELOCATION.size))


def _regions() -> Iterator[Region]:
    try:
        with open("/proc/self/maps") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise SlotError(f"the memory map cannot be read ({error})") from error
    for line in lines:
        span, letters = line.split(maxsplit=2)[:2]
        start, end = (int(part, 16) for part in span.split("-"))
        bits = zip("rwx", (PROT_READ, PROT_WRITE, PROT_EXEC), strict=True)
        yield Region(start, end, sum(bit for letter, bit in bits if letter in letters))


def _page(address: int) -> int:
    return address // PAGE * PAGE


def _protect(page: int, protection: int) -> None:
    mprotect = ctypes.CDLL(None, use_errno=True).mprotect
    mprotect.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    if mprotect(page, PAGE, protection) != 0:
        raise SlotError(f"mprotect: {os.strerror(ctypes.get_errno())}")
