"""Workers in processes of their own: a crash or a hang costs one row, not the run."""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from .judge import Verdict, judge, quiet
from .samples import Entry, samples

SHOWN = 3


@dataclass
class Row:
    """The verdicts on one entry: how many of each category, and some details of those that do not pass."""

    entry: Entry
    counts: Counter[str] = field(default_factory=Counter)
    details: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, verdict: Verdict) -> None:
        self.counts[verdict.category] += 1
        shown = self.details.setdefault(verdict.category, [])
        if verdict.detail and len(shown) < SHOWN and verdict.detail not in shown:
            shown.append(verdict.detail)


def run_entry(entry: Entry, limit: int | None) -> Row:
    """Judge all samples of one entry, in this process."""
    row, start = Row(entry), time.perf_counter()
    try:
        for index, (module, tensors) in enumerate(samples(entry, limit)):
            row.add(judge(entry.key, module, tensors, reload=index == 0))
    except Exception as error:
        row.add(Verdict("eager error", f"no samples: {type(error).__name__}: {error}"[:300]))
    row.seconds = time.perf_counter() - start
    return row


def _work(pipe: Connection, limit: int | None) -> None:
    quiet()
    import torch

    torch.set_num_threads(1)
    while True:
        entry = pipe.recv()
        if entry is None:
            return
        pipe.send(run_entry(entry, limit))


class _Worker:
    def __init__(self, limit: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, limit), daemon=True)
        self.process.start()
        other.close()
        self.entry: Entry | None = None
        self.since = 0.0

    def give(self, entry: Entry) -> None:
        self.entry, self.since = entry, time.monotonic()
        self.pipe.send(entry)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_all(entries: list[Entry], jobs: int, limit: int | None, timeout: float) -> Iterator[Row]:
    """Rows as they are finished."""
    waiting = list(reversed(entries))
    workers = [_Worker(limit) for _ in range(min(jobs, len(entries)))]
    for worker in workers:
        worker.give(waiting.pop())
    while workers:
        wait([worker.pipe for worker in workers], timeout=1.0)
        for worker in list(workers):
            row = _collect(worker, timeout)
            if row is None:
                continue
            yield row
            if row.counts["crash"] or row.counts["timeout"]:
                worker.stop()
                workers.remove(worker)
                if waiting:
                    workers.append(_Worker(limit))
                    workers[-1].give(waiting.pop())
            elif waiting:
                worker.give(waiting.pop())
            else:
                worker.stop()
                workers.remove(worker)


def _collect(worker: _Worker, timeout: float) -> Row | None:
    """The worker's row if it is finished, has crashed or hangs."""
    assert worker.entry is not None
    result: Any = None
    try:
        if worker.pipe.poll():
            result = worker.pipe.recv()
    except (EOFError, OSError):
        worker.process.join()
        result = Row(worker.entry)
        result.add(Verdict("crash", f"the process ended with {worker.process.exitcode}"))
    if result is None and time.monotonic() - worker.since > timeout:
        result = Row(worker.entry)
        result.add(Verdict("timeout", f"no result after {timeout:.0f} s"))
    return result
