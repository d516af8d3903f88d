"""Workers in processes of their own: a crash or a hang costs one row, not the run."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait

import torch

from .judge import Verdict, judge, quiet
from .samples import Entry, samples

SHOWN = 3
# Processes an entry may end or hang before the rest of its samples is given up.
MAX_RESTARTS = 20


@dataclass
class Row:
    """The verdicts on one entry: how many of each category, and some details of those that do not pass."""

    entry: Entry
    counts: Counter[str] = field(default_factory=Counter)
    details: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0
    deviation: float = 0.0  # the largest of its samples: see compare.Comparison

    def add(self, verdict: Verdict) -> None:
        self.counts[verdict.category] += 1
        self.deviation = max(self.deviation, verdict.deviation)
        if verdict.detail:
            shown = self.details.setdefault(verdict.category, [])
            if len(shown) < SHOWN and verdict.detail not in shown:
                shown.append(verdict.detail)


def verdicts(entry: Entry, limit: int | None, start: int = 0) -> Iterator[Verdict]:
    """The verdicts on an entry's samples, in this process, from the sample at `start`."""
    try:
        for index, (module, tensors) in enumerate(samples(entry, limit)):
            if index >= start:
                yield judge(entry.key, module, tensors, reload=index == 0)
    except Exception as error:  # PyTorch makes no samples: a verdict, which is counted
        yield Verdict("eager error", f"no samples: {type(error).__name__}: {error}"[:300])


def _work(pipe: Connection, limit: int | None) -> None:
    """Answers (entry, start) with the verdicts, one message each, and None at the end."""
    quiet()
    torch.set_num_threads(1)
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
    ):  # torch prints what it cannot export
        while True:
            entry, start = pipe.recv()
            for verdict in verdicts(entry, limit, start):
                pipe.send(verdict)
            pipe.send(None)


class _Worker:
    """A process that judges one entry at a time, and starts anew after the sample that ended or hung it."""

    def __init__(self, limit: int | None, timeout: float) -> None:
        self.limit, self.timeout = limit, timeout
        self.row: Row | None = None
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other, self.limit), daemon=True)
        self.process.start()
        other.close()

    def give(self, entry: Entry) -> None:
        self.row, self.began = Row(entry), time.monotonic()
        self._ask(0)

    def _ask(self, start: int) -> None:
        assert self.row is not None
        self.heard = time.monotonic()
        self.pipe.send((self.row.entry, start))

    def collect(self) -> Row | None:
        """The row, once it is complete."""
        assert self.row is not None
        try:
            while self.pipe.poll():
                self.heard = time.monotonic()
                verdict = self.pipe.recv()
                if verdict is None:
                    self.row.seconds = time.monotonic() - self.began
                    return self.row
                self.row.add(verdict)
        except (EOFError, OSError):
            self.process.join()
            self._skip(
                Verdict("crash", f"sample {self._judged()}: the process ended with {self.process.exitcode}")
            )
        if time.monotonic() - self.heard > self.timeout:
            self._skip(Verdict("timeout", f"sample {self._judged()}: no result after {self.timeout:.0f} s"))
        lost = self.row.counts["crash"] + self.row.counts["timeout"]
        return self.row if lost > MAX_RESTARTS else None

    def _judged(self) -> int:
        assert self.row is not None
        return self.row.counts.total()

    def _skip(self, verdict: Verdict) -> None:
        """Count the sample that ended the process, and go on with the next one in a new process."""
        assert self.row is not None
        self.stop()
        self.row.add(verdict)
        self._start()
        self._ask(self._judged())

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_all(entries: list[Entry], jobs: int, limit: int | None, timeout: float) -> Iterator[Row]:
    """Rows as they are finished; `timeout` in seconds a sample, the first one's imports included."""
    waiting = list(reversed(entries))
    workers = [_Worker(limit, timeout) for _ in range(min(jobs, len(entries)))]
    for worker in workers:
        worker.give(waiting.pop())
    while workers:
        wait([worker.pipe for worker in workers], timeout=1.0)
        for worker in list(workers):
            row = worker.collect()
            if row is None:
                continue
            yield row
            if waiting:
                worker.give(waiting.pop())
            else:
                worker.stop()
                workers.remove(worker)
