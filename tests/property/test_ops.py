"""Every row of every family's table: every third in CI, the others are slow.

HYPOTHESIS_PROFILE=thorough draws many more examples.
"""

from pathlib import Path

import pytest

from .runner import Row, run
from .table import families

ROWS = [
    pytest.param(row, id=f"{family}-{row.name}".replace(" ", "_"), marks=[pytest.mark.slow] if i % 3 else [])
    for family, rows in families().items()
    for i, row in enumerate(rows)
]


@pytest.mark.parametrize("row", ROWS)
def test_op(row: Row, tmp_path: Path) -> None:
    run(row, tmp_path)


def test_no_row_is_twice() -> None:
    names = [param.id for param in ROWS]
    assert len(set(names)) == len(names)
