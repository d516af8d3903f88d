"""Structured arguments as a user's code has them, without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass
class Pair:
    first: Any
    second: Any = None


class Span(NamedTuple):
    low: Any
    high: Any
