"""Conformance to PyTorch's own database of operators (OpInfo): `python -m mlxify.conformance --help`.

Every sample input of every entry is exported by itself, converted, run, and compared with PyTorch eager.
"""
