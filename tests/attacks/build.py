"""Hostile program files, made from a good one. `ATTACKS` maps a name to the bytes of the file."""

from __future__ import annotations

import copy
import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from typing import Any

Program = dict[str, Any]

WEIGHT = {"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}
METHOD: Program = {
    "name": "forward",
    "parameters": ["x"],
    "symbols": {"n": [1, 100]},
    "inputs": [["x", "float32", ["n", 4]]],
    "weights": ["w"],
    "state": [],
    "input_tree": ["tuple", [["tuple", [["leaf", 0]]], ["dict", [], []]]],
    "output_tree": ["leaf", 0],
    "instructions": [["add", ["%0", "%1"], [2], 0], ["size", ["%0", 0], [3], 0]],
    "outputs": ["%2"],
    "updates": {},
    "checks": [],
    "sources": [["model.py:1", "x + w", ""]],
}


def header_bytes(header: Any, data: bytes = bytes(16)) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def program_file(program: Any, tensors: Any = None, data: bytes = bytes(16), **metadata: Any) -> bytes:
    """A safetensors file around program data (or its text)."""
    text = program if isinstance(program, str) else json.dumps(program)
    fields = {"format": "mlxify", "version": "1", "program": text, **metadata}
    return header_bytes({"__metadata__": fields, **(WEIGHT if tensors is None else tensors)}, data)


def good() -> bytes:
    return program_file({"methods": [METHOD]})


def method(**changes: Any) -> bytes:
    """A file whose only method differs from the good one in some fields."""
    return program_file({"methods": [{**copy.deepcopy(METHOD), **changes}]})


def instrs(*extra: Any, outputs: Any = None) -> bytes:
    """The good method with more instructions after its own (next value: %4)."""
    return method(instructions=[*METHOD["instructions"], *extra], outputs=outputs or ["%2"])


def one(op: str, *args: Any) -> bytes:
    return instrs([op, list(args), [4], 0])


LEAF: dict[str, Any] = {"inputs": [], "like": [], "instructions": [], "outputs": ["%2"]}


def nested(depth: int) -> Any:
    """A block nested `depth` deep in its first branch."""
    block = LEAF
    for _ in range(depth):
        block = {**LEAF, "instructions": [["cond", [True, block, LEAF], [4], 0]]}
    return block


def zip_file() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps([1]))
    return buffer.getvalue()


class _Bomb:
    def __reduce__(self) -> Any:
        return (print, ("pickle ran",))


def tensor(**changes: Any) -> bytes:
    return program_file({"methods": [METHOD]}, {"w": {**WEIGHT["w"], **changes}})


def doubling() -> bytes:
    steps = [["concatenate", [[f"%{n}", f"%{n}"], 0], [n + 1], 0] for n in range(4, 64)]
    return instrs(["add", ["%0", "%0"], [4], 0], *steps)


CONTAINER: dict[str, Callable[[], bytes]] = {
    "empty file": lambda: b"",
    "four bytes": lambda: b"\x01\x02\x03\x04",
    "random bytes": lambda: bytes((i * 7919 + 13) % 256 for i in range(4096)),
    "a pickle": lambda: pickle.dumps(_Bomb()),
    "a zip": zip_file,
    "a numpy file": lambda: b"\x93NUMPY\x01\x00v\x00" + b" " * 118,
    "header longer than the file": lambda: struct.pack("<Q", 1 << 20) + b"{}",
    "header length 2**63": lambda: struct.pack("<Q", 1 << 63) + b"{}" * 64,
    "header beyond the limit": lambda: header_bytes(b"{" + b" " * (65 << 20) + b"}"),
    "header not JSON": lambda: header_bytes(b"{not json}"),
    "header not UTF-8": lambda: header_bytes(b'{"\xff\xfe": 1}'),
    "header a list": lambda: header_bytes([1, 2]),
    "header a number": lambda: header_bytes(b"7"),
    "header deeply nested": lambda: header_bytes(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "no metadata": lambda: header_bytes(WEIGHT),
    "metadata not text": lambda: header_bytes({"__metadata__": {"format": 1}, **WEIGHT}),
    "another format": lambda: program_file("{}", format="pt"),
    "version missing": lambda: header_bytes(
        {"__metadata__": {"format": "mlxify", "program": "{}"}, **WEIGHT}
    ),
    "version from the future": lambda: program_file({"methods": [METHOD]}, version="999"),
    "version negative": lambda: program_file({"methods": [METHOD]}, version="-1"),
    "version not a number": lambda: program_file({"methods": [METHOD]}, version="1e0"),
    "truncated": lambda: good()[:-9],
    "cut in the header": lambda: good()[:60],
    "trailing bytes": lambda: good() + b"more",
    "offsets beyond the file": lambda: tensor(data_offsets=[0, 1 << 40]),
    "offsets reversed": lambda: tensor(data_offsets=[16, 0]),
    "offsets negative": lambda: tensor(data_offsets=[-16, 0]),
    "offsets overlap": lambda: program_file({"methods": [METHOD]}, {**WEIGHT, "v": WEIGHT["w"]}),
    "shape does not fit": lambda: tensor(shape=[5]),
    "shape overflows": lambda: tensor(shape=[1 << 32, 1 << 32, 4]),
    "shape with a huge zero": lambda: tensor(shape=[0, 1 << 62], data_offsets=[0, 0]),
    "dtype unknown": lambda: tensor(dtype="F31"),
    "dtype not in MLX": lambda: tensor(dtype="F8_E4M3", shape=[16]),
}

JSON: dict[str, Callable[[], bytes]] = {
    "program missing": lambda: header_bytes({"__metadata__": {"format": "mlxify", "version": "1"}, **WEIGHT}),
    "program not JSON": lambda: program_file("{methods}"),
    "program null": lambda: program_file("null"),
    "program deeply nested": lambda: program_file("[" * 200_000 + "]" * 200_000),
    "program with NaN": lambda: program_file('{"methods": NaN}'),
    "program with a giant number": lambda: program_file('{"methods": ' + "9" * 100_000 + "}"),
    "no methods": lambda: program_file({"methods": []}),
    "methods a dict": lambda: program_file({"methods": {}}),
    "method a string": lambda: program_file({"methods": ["forward"]}),
    "method twice": lambda: program_file({"methods": [METHOD, METHOD]}),
    "method named __class__": lambda: method(name="__class__"),
    "method named with a dot": lambda: method(name="os.system"),
    "method named save": lambda: method(name="save"),
    "field missing": lambda: program_file({"methods": [{"name": "forward"}]}),
    "parameters twice": lambda: method(parameters=["x", "x"]),
    "parameters too few": lambda: method(parameters=[]),
    "parameters not text": lambda: method(parameters=[1]),
    "tree with a leaf twice": lambda: method(output_tree=["tuple", [["leaf", 0], ["leaf", 0]]]),
    "tree with a leaf outside": lambda: method(output_tree=["leaf", 7]),
    "tree with a negative leaf": lambda: method(output_tree=["leaf", -1]),
    "tree of an unknown kind": lambda: method(output_tree=["eval", "1"]),
    "tree too deep": lambda: method(output_tree=json.loads('["tuple", [' * 200 + '["leaf", 0]' + "]]" * 200)),
    "tree with unhashable keys": lambda: method(output_tree=["dict", [[1]], [["leaf", 0]]]),
    "input of an unknown dtype": lambda: method(inputs=[["x", "float31", ["n", 4]]]),
    "input of an unknown number": lambda: method(inputs=[["x", "number:complex", []]]),
    "input of a number with a shape": lambda: method(inputs=[["x", "number:int", [2]]]),
    "input of a negative size": lambda: method(inputs=[["x", "float32", [-1, 4]]]),
    "input of a giant size": lambda: method(inputs=[["x", "float32", [2**31 - 1, 2**31 - 1]]]),
    "input of a size beyond int32": lambda: method(inputs=[["x", "float32", [2**33]]]),
    "input of an unknown symbol": lambda: method(inputs=[["x", "float32", ["m", 4]]]),
    "input of a malformed symbol": lambda: method(inputs=[["x", "float32", ["n*n", 4]]]),
    "input of rank 1000": lambda: method(inputs=[["x", "float32", [1] * 1000]]),
    "symbol range reversed": lambda: method(symbols={"n": [9, 1]}),
    "symbol examples outside its range": lambda: method(symbols={"n": [1, 9, 2, 10]}),
    "symbol examples of text": lambda: method(symbols={"n": [1, 9, "2", 3]}),
    "symbol with three numbers": lambda: method(symbols={"n": [1, 9, 2]}),
    "symbol examples that are huge": lambda: method(symbols={"n": [1, None, 2, 2**40]}),
    "a size times zero": lambda: method(inputs=[["x", "float32", ["0*n", 3]]]),
    "a number of an unknown size": lambda: method(inputs=[["x", "number:int", ["m"]]]),
    "a float with a size": lambda: method(inputs=[["x", "number:float", ["n"]]]),
    "a constant that is no float": lambda: method(output_tree=["float", "1.0"]),
    "symbol range of text": lambda: method(symbols={"n": ["0", "1"]}),
    "symbol name of code": lambda: method(symbols={"n": [1, 2], "__import__('os')": [1, 2]}),
    "weight missing": lambda: method(weights=["v"]),
    "state missing": lambda: method(state=["s"]),
    "update of unknown state": lambda: method(updates={"s": 2}),
    "output undefined": lambda: method(outputs=["%77"]),
    "output malformed": lambda: method(outputs=["%-1"]),
    "output a dict": lambda: method(outputs=[{}]),
    "check of no bool": lambda: method(checks=[["%2", "no"]]),
    "check of a number": lambda: method(checks=[["%3", "no"]]),
    "check undefined": lambda: method(checks=[["%9", "no"]]),
    "sources malformed": lambda: method(sources=[["a"]]),
}

INSTRUCTIONS: dict[str, Callable[[], bytes]] = {
    "unknown instruction": lambda: one("system", "%0"),
    "instruction of a module's name": lambda: one("__import__", "text:os"),
    "too few arguments": lambda: one("add", "%0"),
    "too many arguments": lambda: one("add", "%0", "%1", "%0"),
    "reference undefined": lambda: one("add", "%0", "%50"),
    "reference to itself": lambda: one("add", "%0", "%4"),
    "reference of 10**20": lambda: one("add", "%0", "%" + "9" * 20),
    "text for an array": lambda: one("add", "%0", "text:x"),
    "number for an array": lambda: one("add", "%0", 3),
    "host number for an array": lambda: one("add", "%0", "%3"),
    "array for a host number": lambda: one("number_unary", "text:negative", "%0"),
    "array for an int": lambda: one("size", "%0", "%1"),
    "float for an int": lambda: one("size", "%0", 0.5),
    "bool for an int": lambda: one("size", "%0", True),
    "int beyond 64 bits": lambda: one("reshape", "%0", [2**63]),
    "list for a value": lambda: one("size", "%0", [0]),
    "list of lists": lambda: one("reshape", "%0", [[1]]),
    "dict for a value": lambda: one("size", "%0", {"a": 1}),
    "unknown choice": lambda: one("number_unary", "text:eval", 1),
    "unknown dtype": lambda: one("cast", "%0", "dtype:float31"),
    "result out of order": lambda: instrs(["add", ["%0", "%1"], [9], 0]),
    "result defined twice": lambda: instrs(["add", ["%0", "%1"], [2], 0]),
    "too many results": lambda: instrs(["add", ["%0", "%1"], [4, 5], 0]),
    "shapes that do not fit": lambda: instrs(
        ["transpose", ["%0", [1, 0]], [4], 0], ["add", ["%4", "%0"], [5], 0]
    ),
    "reshape to another size": lambda: one("reshape", "%1", [5]),
    "reshape to -5": lambda: one("reshape", "%1", [-5]),
    "reshape with two -1": lambda: one("reshape", "%1", [-1, -1]),
    "transpose of twice one axis": lambda: one("transpose", "%0", [0, 0]),
    "transpose of a far axis": lambda: one("transpose", "%0", [0, 2**40]),
    "axis out of range": lambda: one("size", "%0", 9),
    "axis of -2**63": lambda: one("size", "%0", -(2**63)),
    "broadcast to a giant": lambda: one("broadcast_to", "%1", [2**30, 2**30, 4]),
    "full of a giant": lambda: instrs(["constant", [1.0, "dtype:float32"], [4], 0], ["full", ["%4", [2**40]], [5], 0]),
    "doubling sixty times": doubling,
    "rank 40": lambda: one("reshape", "%1", [1] * 39 + [4]),
    "a shape of 100,000 sizes": lambda: one("reshape", "%1", [1] * 100_000 + [4]),
    "division of numbers by zero": lambda: one("number_binary", "text:floor_divide", "%3", 0),
    "power tower of numbers": lambda: instrs(
        ["number_binary", ["text:power", 2**62, 2**62], [4], 0]
    ),
    "numbers beyond 64 bits": lambda: one("number_binary", "text:multiply", 2**62, 2**62),
    "infinite integer": lambda: one("number_unary", "text:int", "float:inf"),
    "constant of an infinite integer": lambda: one("constant", "float:inf", "dtype:int32"),
    "message of a megabyte": lambda: instrs(["assert_number", [True, "text:" + "x" * 1_000_000], [], 0]),
    "block where none belongs": lambda: one("add", "%0", LEAF),
    "block that is no block": lambda: one("cond", True, {"inputs": 3}, LEAF),
    "blocks nested 100 deep": lambda: one("cond", True, nested(100), LEAF),
    "block that uses its own result": lambda: one(
        "cond", True, {"inputs": [], "like": [], "instructions": [], "outputs": ["%4"]}, LEAF
    ),
    "branches of different shapes": lambda: one(
        "cond", True, LEAF, {"inputs": [], "like": [], "instructions": [], "outputs": ["%1"]}
    ),
    "linear of mismatched sizes": lambda: one("linear", "%1", "%1", None),
}  # fmt: skip


ATTACKS = CONTAINER | JSON | INSTRUCTIONS
