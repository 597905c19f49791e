"""Plans that MSCCL++ ships for 8 GPUs and for two nodes of 8, next to ours, in one simulator.

    python -m benchmarks.shipped [--effort STEPS] [--only WORDS]

Theirs are written anew from what its programs say (microsoft/mscclpp, python/mscclpp/default_algos and
python/mscclpp/language/tests): who writes what to whom, in which thread blocks.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import taccl
from benchmarks import report
from benchmarks.checkout import test_helper
from benchmarks.kept import keep_line, kept_lines
from taccl.backend.mscclpp.writer import to_json
from taccl.backend.plan import ExecutionPlan
from taccl.backend.verify.mscclpp import verify_plan
from taccl.errors import CheckError
from taccl.model import units

examples = test_helper("backend", "plan_examples")
Lines, make_plan, make_rank = examples.Lines, examples.plan, examples.rank

_MACHINE, _GPUS = "dgx-h100", 8
_SIZES = tuple(2**k for k in range(10, 21))
_COLLECTIVES = ("allreduce", "allgather")
_HEADER = (
    "nodes",
    "collective",
    "size",
    "costs",
    "fastest of theirs",
    "theirs us",
    "ours us",
    "theirs / ours",
    "effort",
)


@dataclass(frozen=True)
class Shipped:
    """A plan of theirs: its program, the sizes that it is for (bytes, both included)."""

    name: str
    nodes: int
    plan: ExecutionPlan
    least: int = 0
    most: int = units.GB


@dataclass(frozen=True)
class Row:
    """Ours and the fastest of theirs, microseconds, by links alone or by what the GPUs take by default."""

    nodes: int
    collective: str
    size: int
    links_alone: bool
    effort: int
    theirs: str
    theirs_us: float
    ours_us: float

    @property
    def key(self) -> tuple[bool, int, bool, int]:
        """What it is a row of, in the order of the page."""
        return not self.links_alone, self.nodes, self.collective == "allgather", self.size


def main() -> None:
    """Make the rows asked for, keep them, and write docs/results/shipped.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--effort", type=int, default=1000)
    parser.add_argument(
        "--only", default="", help="rows with all of these words, as `x2 allgather 64KB links`"
    )
    arguments = parser.parse_args()
    rows = {row.key: row for row in (Row(**each) for each in kept_lines("shipped"))}
    for costs, nodes, collective in product(("links", "defaults"), (1, 2), ("allreduce", "allgather")):
        words = f"x{nodes}", collective, costs
        sizes = [z for z in _SIZES if set(arguments.only.split()) <= {*words, units.format_size(z)}]
        theirs = _theirs(nodes, collective, sizes, costs == "links")
        for size in sizes:
            ours_us = _ours_us(nodes, collective, size, costs == "links", arguments.effort)
            name = min(theirs[size], key=theirs[size].__getitem__)
            row = Row(
                nodes, collective, size, costs == "links", arguments.effort, name, theirs[size][name], ours_us
            )
            rows[row.key] = row
            keep_line("shipped", asdict(row))
            print(*_cells(row), file=sys.stderr, flush=True)
    body = report.table(_HEADER, [_cells(rows[key]) for key in sorted(rows)])
    report.write("shipped", "Next to the plans that MSCCL++ ships", _INTRO, body, _measured())


def _measured() -> str:
    day = datetime.date.today()
    how = "with `python -m benchmarks.shipped`, in several goes (`--only`)"
    return f"Measured {day} on {report.machine()}, {how}."


def _theirs(nodes: int, collective: str, sizes: list[int], links_alone: bool) -> dict[int, dict[str, float]]:
    """Times of theirs in the simulator, microseconds, by size and name."""
    times: dict[int, dict[str, float]] = {size: {} for size in sizes}
    for each in all_shipped():
        some = [size for size in sizes if each.least <= size <= each.most]
        if (each.nodes, each.plan.collective) != (nodes, collective) or not some:
            continue
        if not verify_plan(each.plan).ok:
            raise CheckError(f"{each.name} is not written as it should be")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "plan.json")
            path.write_text(to_json(each.plan))
            simulated = taccl.simulate_file(path, some, topology=_MACHINE, nodes=nodes, **_costs(links_alone))
        for at in simulated.sizes:
            times[at.size_bytes][each.name] = at.time_us
    return times


def _ours_us(nodes: int, collective: str, size: int, links_alone: bool, effort: int) -> float:
    requested = {"topology": _MACHINE, "nodes": nodes, "size": size, "effort": effort, **_costs(links_alone)}
    result = taccl.synthesize(collective, target="mscclpp", **requested)
    if result.execution is None:
        raise CheckError(f"{collective} of {size} bytes was not predicted")
    return result.execution.time_us


def _costs(links_alone: bool) -> dict[str, Any]:
    return {"executor": False} if links_alone else {}


def _cells(row: Row) -> list[str]:
    where = (
        str(row.nodes),
        row.collective,
        units.format_size(row.size),
        "links" if row.links_alone else "defaults",
    )
    ratio = f"{row.theirs_us / row.ours_us:.2f}"
    return [*where, row.theirs, f"{row.theirs_us:.2f}", f"{row.ours_us:.2f}", ratio, str(row.effort)]


def all_shipped() -> Iterator[Shipped]:
    """One node: its examples and the one-shot kernel; two: what is installed as default."""
    yield Shipped("one-shot packets", 1, one_shot())
    yield Shipped("allreduce_pkt", 1, nodes_of_packets(1, 1))
    yield Shipped("allreduce", 1, pulled_allreduce())
    yield Shipped("allreduce_nvls_zero_copy", 1, switch_allreduce())
    yield Shipped("allgather_pkt", 1, packet_allgather(1))
    yield Shipped("allgather", 1, examples.all_pairs_allgather(_GPUS, 1))
    yield Shipped("allreduce_2nodes_1K_64K", 2, nodes_of_packets(2, 1), 2**10, 2**16)
    yield Shipped("allreduce_2nodes_128K_2M", 2, nodes_of_packets(2, 4), 2**17, 2**21)
    yield Shipped("allgather_multi_nodes", 2, packet_allgather(2))


def one_shot() -> ExecutionPlan:
    """Everything to everybody; every thread block adds up its part of what all sent."""
    ranks = []
    for r in range(_GPUS):
        others = _others(r, range(_GPUS))
        slots = " ".join(f"s{_GPUS * k}+{_GPUS}" for k in range(len(others)))
        blocks = [
            Lines(
                f"ppkt m i0+{_GPUS} > R0:{_GPUS * _slot(r, peer)}+{_GPUS}\n"
                f"repkt i0+{_GPUS} {slots} > o0+{_GPUS} share={k}/{len(others)}",
                (k,),
                remotes=(k,),
            )
            for k, peer in enumerate(others)
        ]
        chunks = (_GPUS, _GPUS, _GPUS * len(others))
        ranks.append(make_rank(r, chunks, blocks, memory=tuple(others), remotes=_scratch(others, "m")))
    return make_plan("allreduce", ranks, protocol="LL", double_scratch=True)


def nodes_of_packets(nodes: int, group: int) -> ExecutionPlan:
    """Sums in nodes, of those with the same place in all nodes, and back; `group` thread blocks a peer."""
    total, part = nodes * _GPUS, nodes
    across_at, back_at = total, total + nodes * part
    ranks = []
    for r in range(total):
        node, mine = divmod(r, _GPUS)
        peers = _others(r, range(node * _GPUS, (node + 1) * _GPUS))
        far = _others(r, range(mine, total, _GPUS))
        own = f"i{mine * part}+{part}"
        came = " ".join(f"s{peer % _GPUS * part}+{part}" for peer in peers)
        passed = f"s{mine * part}+{part}"
        done = f"s{across_at + node * part}+{part}"
        blocks = [
            Lines("", (), tuple(range(len(far))), remotes=tuple(range(len(peers), len(peers) + len(far))))
        ]
        if far:
            puts = "\n".join(
                f"rppkt p{k} {passed} > R{k}:{across_at + node * part}+{part}" for k in range(len(far))
            )
            blocks[0] = Lines(puts, (), blocks[0].port, remotes=blocks[0].remotes)
        for k, peer in enumerate(peers):
            for j in range(group):
                some, whole = f"share={j}/{group}", f"share={k * group + j}/{len(peers) * group}"
                theirs = f"{peer % _GPUS * part}+{part}"
                lines = [
                    f"ppkt m i{theirs} > R0:{mine * part}+{part} {some}",
                    f"repkt {own} {came} > {own} {whole}",
                ]
                if far:
                    others = " ".join(f"s{across_at + each // _GPUS * part}+{part}" for each in far)
                    lines += [f"cpkt {own} > {passed} {whole}", f"repkt {own} {others} > {own} {whole}"]
                lines += [
                    f"cpkt {own} > {done} {whole}",
                    f"rppkt m {done} > R0:{back_at + mine * part}+{part} {some}",
                    f"upkt s{back_at + peer % _GPUS * part}+{part} > i{theirs} {some}",
                ]
                blocks.append(Lines("\n".join(lines), (k,), remotes=(k,)))
        ranks.append(
            make_rank(
                r,
                (total, total, back_at + total),
                blocks if far else blocks[1:],
                memory=tuple(peers),
                port=tuple(far),
                remotes=(*_scratch(peers, "m"), *_scratch(far, "p")),
            )
        )
    return make_plan("allreduce", ranks, protocol="LL", in_place=True, double_scratch=True)


def packet_allgather(nodes: int) -> ExecutionPlan:
    """To all of the node and to the same place of the other nodes, who hand it on in theirs; out of place."""
    total = nodes * _GPUS
    ranks = []
    for r in range(total):
        node, mine = divmod(r, _GPUS)
        peers = _others(r, range(node * _GPUS, (node + 1) * _GPUS))
        far = _others(r, range(mine, total, _GPUS))
        blocks = [Lines(f"copy i0 > o{r}", (), (), remotes=())]
        blocks += [Lines(f"ppkt m i0 > R0:{r}", (k,), remotes=(k,)) for k in range(len(peers))]
        for k in range(len(far)):
            text = f"cpkt i0 > s{total + k}\nrppkt p0 s{total + k} > R0:{r}"
            blocks.append(Lines(text, (), (k,), remotes=(len(peers) + k,)))
        for origin in far:
            blocks += [
                Lines(f"rppkt m s{origin} > R0:{origin}", (k,), remotes=(k,)) for k in range(len(peers))
            ]
        blocks += [Lines(f"upkt s{each} > o{each}", remotes=()) for each in _others(r, range(total))]
        ranks.append(
            make_rank(
                r,
                (1, total, total + len(far)),
                blocks,
                memory=tuple(peers),
                port=tuple(far),
                remotes=(*_scratch(peers, "m"), *_scratch(far, "p")),
            )
        )
    return make_plan("allgather", ranks, protocol="LL", double_scratch=True)


def pulled_allreduce() -> ExecutionPlan:
    """Each thread block reads its chunk of all others, adds up, and writes the sum to all."""

    def work(at: int, places: range) -> str:
        pulls = " ".join(f"R{place}:{at}" for place in places)
        return f"rres m i{at} {pulls} > i{at} {pulls}"

    return _between_barriers(work, None)


def switch_allreduce() -> ExecutionPlan:
    """Each thread block has its chunk summed by the switch and stored in all."""
    return _between_barriers(lambda at, _: f"glres w W0:{at} > W0:{at}", ("i", tuple(range(_GPUS))))


def _between_barriers(
    work: Callable[[int, range], str], switch: tuple[str, tuple[int, ...]] | None
) -> ExecutionPlan:
    """In place, eight thread blocks of a rank with a chunk each; all ranks meet before and after."""
    ranks, many = [], 8
    for r in range(_GPUS):
        others = _others(r, range(_GPUS))
        places = range(len(others))
        lanes = "m" + ",".join(map(str, places))
        blocks = []
        for k in range(many):
            channels = tuple(len(others) * k + place for place in places)
            text = (
                f"rlxsignal {lanes}\nrlxwait {lanes}\nnop\n{work(r * many + k, places)}\n"
                f"nop\nsignal {lanes}\nwait {lanes}"
            )
            blocks.append(
                Lines(text, channels, (), (0,) if switch else (), remotes=() if switch else tuple(places))
            )
        chunks = (_GPUS * many, _GPUS * many, 0)
        remotes = () if switch else tuple((peer, "i", "m") for peer in others)
        ranks.append(
            make_rank(r, chunks, blocks, memory=tuple(others) * many, switch=switch, remotes=remotes)
        )
    return make_plan("allreduce", ranks, in_place=True)


def _others(rank: int, some: range) -> list[int]:
    return [each for each in some if each != rank]


def _slot(rank: int, peer: int) -> int:
    """Of `rank` among the others of `peer`."""
    return rank if rank < peer else rank - 1


def _scratch(owners: list[int], access: str) -> tuple[tuple[int, str, str], ...]:
    return tuple((owner, "s", access) for owner in owners)


_INTRO = """\
AllReduce and AllGather of 1 KB to 1 MB on one and two `dgx-h100`, by `--target mscclpp`: the fastest of the
plans that MSCCL++ has for 8 and 16 GPUs at that size, and ours, both in our simulator. Theirs are written
anew from its programs, line for line in what moves where, and verified: for two nodes those that are
installed by default (python/mscclpp/default_algos at 0c9b9ab and 421f02c, for the sizes in their names),
for one the examples of python/mscclpp/language/tests/single_node and its kernel that sends everything to
everybody as packets. Their AllReduces work in place, ours not, and theirs wait at no barrier before they
send across nodes: so they are as fast or faster than as shipped.

*links*: links alone (`--no-executor`); *defaults*: with what executing costs on H100 by default. Times are
by the simulator, in microseconds, of searches with `--effort` as in the last column."""

if __name__ == "__main__":
    main()
