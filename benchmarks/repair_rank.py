"""One rank of a call on a testbed, by plain sockets: sends in the order of links, numbers added and copied.

    python -m benchmarks.repair_rank FOLDER         in every namespace of a testbed

It imports nothing of taccl, and starts at once: eight of these start on two cores.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_AHEAD_S, _PATIENCE_S = 1.0, 120.0

#: A chunk and a rank.
Cell = tuple[int, int]


@dataclass(frozen=True)
class Row:
    """A chunk over a link: which sum (contributors in bits; 0: a copy), after how many rows to its sender."""

    src: int
    dst: int
    chunk: int
    carries: int
    after: int


@dataclass(frozen=True)
class Leg:
    """Sends in the order of their starts.

    `inputs` : for each chunk and rank what it is called, and which sum of the leg before it is.
    """

    rows: tuple[Row, ...]
    inputs: dict[Cell, tuple[int, int]]


@dataclass(frozen=True)
class Case:
    """A call. `outputs` : what each rank wants, by its name in the last leg, and whose inputs that sums.

    At `slow_us` ranks 0 and 1 shape the wire between them to `rate_bits`.
    """

    ranks: int
    addresses: tuple[str, ...]
    chunk_bytes: int
    legs: tuple[Leg, ...]
    outputs: dict[Cell, tuple[int, tuple[int, ...]]]
    slow_us: float
    rate_bits: int
    wire: str


class Rank:
    """What a rank has of each chunk, by what is summed in it, and how many rows of it came."""

    def __init__(self, rank: int, case: Case, folder: Path) -> None:
        self.rank, self.case, self.folder = rank, case, folder
        self.held: dict[int, dict[int, np.ndarray]] = {}
        self.arrived: dict[int, int] = {}
        self.came = threading.Condition()

    def run(self, links: dict[Cell, socket.socket], start_s: float) -> float:
        """All legs; how long they took from the start, us."""
        if self.rank < 2:
            threading.Timer(start_s + self.case.slow_us / 1e6 - time.monotonic(), self._slow).start()
        time.sleep(max(0.0, start_s - time.monotonic()))
        for number, leg in enumerate(self.case.legs):
            if number:
                meet(self.folder, f"leg{number}", self.rank, self.case.ranks)
                self._take_stock(leg)
            self._run_leg(leg, links)
        return (time.monotonic() - start_s) * 1e6

    def made(self, chunk: int, sums: int) -> np.ndarray:
        """A copy, or the sum of disjoint sums that the rank has."""
        parts = self.held[chunk]
        made_of = [0] if not sums else _disjoint(sums, list(parts))
        assert made_of, f"rank {self.rank} lacks {sums:b} of chunk {chunk}"
        return np.sum([parts[part] for part in made_of], axis=0, dtype=np.float32)

    def _slow(self) -> None:
        words = f"tc qdisc change dev {self.case.wire} root tbf rate {self.case.rate_bits}bit"
        subprocess.run([*words.split(), "burst", "10000", "limit", str(64 * 2**20)], check=True)

    def _take_stock(self, leg: Leg) -> None:
        """What a rank has of a sum is one contribution."""
        mine = [(chunk, *names) for (chunk, rank), names in leg.inputs.items() if rank == self.rank]
        self.held = {chunk: {called: self.made(chunk, sums)} for chunk, called, sums in mine}
        self.arrived = {}

    def _run_leg(self, leg: Leg, links: dict[Cell, socket.socket]) -> None:
        orders: dict[Cell, list[Row]] = {}
        for row in leg.rows:
            if self.rank in (row.src, row.dst):
                orders.setdefault((row.src, row.dst), []).append(row)
        acts = [
            (self._send if pair[0] == self.rank else self._receive, rows, links[pair])
            for pair, rows in orders.items()
        ]
        threads = [threading.Thread(target=act, args=(rows, link)) for act, rows, link in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send(self, rows: list[Row], link: socket.socket) -> None:
        for row in rows:
            with self.came:
                self.came.wait_for(lambda row=row: self.arrived.get(row.chunk, 0) >= row.after)
                numbers = self.made(row.chunk, row.carries)
            link.sendall(numbers.tobytes())

    def _receive(self, rows: list[Row], link: socket.socket) -> None:
        for row in rows:
            numbers = np.frombuffer(_whole(link, self.case.chunk_bytes), np.float32)
            with self.came:
                self.held.setdefault(row.chunk, {})[row.carries] = numbers
                self.arrived[row.chunk] = self.arrived.get(row.chunk, 0) + 1
                self.came.notify_all()


def main(folder: Path) -> None:
    """Connect, run, compare, and say how long it took and how many numbers are wrong."""
    case: Case = pickle.loads((folder / "case").read_bytes())
    this = Rank(int(os.environ["RANK"]), case, folder)
    for (chunk, rank), (called, _) in case.legs[0].inputs.items():
        if rank == this.rank:
            this.held[chunk] = {called: _numbers(case, chunk, rank)}
    links = dict(_connected(case, this.rank, folder))
    meet(folder, "connected", this.rank, case.ranks)
    start = folder / "start"
    if this.rank == 0:
        (folder / "start.new").write_text(str(time.monotonic() + _AHEAD_S))
        (folder / "start.new").rename(start)
    while not start.exists():
        time.sleep(0.01)
    took_us = this.run(links, float(start.read_text()))
    wrong = 0
    for (chunk, rank), (called, sources) in case.outputs.items():
        if rank == this.rank:
            wanted = np.sum([_numbers(case, chunk, each) for each in sources], axis=0, dtype=np.float32)
            wrong += int((this.made(chunk, called) != wanted).sum())
    (folder / f"{this.rank}.took").write_text(json.dumps({"took_us": took_us, "wrong": wrong}))
    meet(folder, "ended", this.rank, case.ranks)


def _disjoint(whole: int, parts: list[int]) -> list[int]:
    """Disjoint parts whose union is the whole; none: there are none."""
    if not whole:
        return []
    for part in parts:
        if part & whole & -whole and not part & ~whole:
            if part == whole:
                return [part]
            others = _disjoint(whole ^ part, parts)
            if others:
                return [part, *others]
    return []


def _numbers(case: Case, chunk: int, rank: int) -> np.ndarray:
    """Whole numbers, whose sums are exact in any order."""
    draw = np.random.default_rng((chunk, rank))
    return draw.integers(-8, 9, case.chunk_bytes // 4).astype(np.float32)


def _connected(case: Case, rank: int, folder: Path) -> Iterator[tuple[Cell, socket.socket]]:
    """A connection for each link that some leg uses, from its first rank to its second."""
    used = sorted({(row.src, row.dst) for leg in case.legs for row in leg.rows})
    own = case.addresses[rank]
    listening = {pair: socket.create_server((own, 31000 + pair[0])) for pair in used if pair[1] == rank}
    meet(folder, "listening", rank, case.ranks)
    for src, dst in used:
        if src == rank:
            link = socket.create_connection((case.addresses[dst], 31000 + rank), _PATIENCE_S, (own, 0))
            yield (src, dst), link
    for pair, server in listening.items():
        link, _ = server.accept()
        link.settimeout(_PATIENCE_S)
        yield pair, link


def _whole(link: socket.socket, many: int) -> bytes:
    got = bytearray()
    while len(got) < many:
        piece = link.recv(many - len(got))
        if not piece:
            raise ConnectionError("a rank is gone")
        got += piece
    return bytes(got)


def meet(folder: Path, name: str, rank: int, ranks: int) -> None:
    """Wait for all ranks, which share this folder."""
    (folder / f"{name}.{rank}").touch()
    while len(list(folder.glob(f"{name}.*"))) < ranks:
        time.sleep(0.002)


if __name__ == "__main__":
    sys.modules["benchmarks.repair_rank"] = sys.modules["__main__"]
    main(Path(sys.argv[1]))
