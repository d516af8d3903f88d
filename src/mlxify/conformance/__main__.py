"""`python -m mlxify.conformance`"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from .judge import FAILURES, quiet
from .pool import Row, run_all
from .report import closing_lines, read_json, totals, write_json, write_markdown
from .samples import COMMON_DTYPES, OTHER_DTYPES, entries

KEPT = 20
"""After so many entries what is known is written, for --resume."""
EXAMPLE = "example: python -m mlxify.conformance --core --dtypes float32,int64 --only 'index_*' --jobs 2"


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser("python -m mlxify.conformance", description=__doc__, epilog=EXAMPLE)
    p.add_argument("--core", action="store_true", help="only entries of ops tagged core ATen")
    p.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="entries by name or pattern; repeatable"
    )
    p.add_argument(
        "--dtypes",
        help=f"comma-separated; default {','.join(COMMON_DTYPES)}, and {','.join(OTHER_DTYPES)} for core entries",
    )
    p.add_argument("--max-samples", type=int, metavar="N", help="at most N samples an entry")
    p.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="worker processes; default %(default)s"
    )
    p.add_argument(
        "--timeout", type=float, default=120, help="seconds a sample may take; default %(default)s"
    )
    p.add_argument("--json", type=Path, metavar="FILE", help="write one record an entry, as the run goes on")
    p.add_argument(
        "--resume", action="store_true", help="go on with the entries that are not in --json's file"
    )
    p.add_argument(
        "--merge", type=Path, metavar="FILE", help="take all other entries from this earlier --json"
    )
    p.add_argument("--markdown", type=Path, metavar="FILE", help="write the coverage page")
    p.add_argument("--verbose", action="store_true", help="print the details of what does not pass")
    return p


def main() -> int:
    options = parser().parse_args()
    quiet()
    start = time.perf_counter()
    todo = entries(options.only, options.dtypes and options.dtypes.split(","), options.core)
    if not todo:
        print("no entry matches", file=sys.stderr)
        return 2
    rows: list[Row] = []
    if options.resume and options.json and options.json.exists():
        wanted = set(todo)
        rows = [row for row in read_json(options.json) if row.entry in wanted]
        finished = {row.entry for row in rows}
        todo = [entry for entry in todo if entry not in finished]
    total = len(rows) + len(todo)
    for row in run_all(todo, options.jobs, options.max_samples, options.timeout):
        rows.append(row)
        _progress(len(rows), total, row)
        if options.json and len(rows) % KEPT == 0:
            write_json(rows, options.json)
        if options.verbose or any(row.counts[c] for c in FAILURES):
            _print_details(row, options.verbose)
    if options.merge:
        done = {row.entry for row in rows}
        rows += [row for row in read_json(options.merge) if row.entry not in done]
    if options.json:
        write_json(rows, options.json)
    if options.markdown:
        write_markdown(rows, options.markdown, "python -m mlxify.conformance " + " ".join(sys.argv[1:]))
    print("\n".join(closing_lines(rows)))
    print(f"{len(rows)} entries in {time.perf_counter() - start:.0f} s")
    return 1 if any(totals(rows)[c] for c in FAILURES) else 0


def _progress(done: int, total: int, row: Row) -> None:
    if sys.stderr.isatty():
        print(
            f"\r\033[K{done}/{total} {row.entry.key} {row.entry.dtype}", end="", file=sys.stderr, flush=True
        )
    elif done % 100 == 0:
        print(f"{done} of {total} entries", file=sys.stderr, flush=True)


def _print_details(row: Row, everything: bool) -> None:
    for category, details in row.details.items():
        if category in FAILURES or everything:
            for detail in details:
                print(
                    f"{row.entry.key} {row.entry.dtype} {category} ({row.counts[category]}): {detail}",
                    flush=True,
                )


if __name__ == "__main__":
    sys.exit(main())
