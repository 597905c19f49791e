"""Orders of hosts: the search against every order, hidden rings, and racks; docs/results/orders_of_hosts.md.

    python -m benchmarks.orders

Machines of hosts with a random cost for each pair of them, where the search of larger machines is held
against the best of all orders; machines in which a ring of fast pairs is hidden; and racks behind shared
uplinks, where random orders are held against the one found. By links alone, with work in place of seconds.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import numpy as np

from benchmarks import report
from benchmarks.testbed_orders import KEPT
from taccl.analysis.ordering.plans import traffic_for
from taccl.analysis.ordering.search import find_order
from taccl.analysis.ordering.traffic import Traffic
from taccl.model import units
from taccl.support.budget import Budget
from taccl.support.jit import ahead_of_time
from taccl.synthesis.request import Request

_NODE = "{gpus: 1, nics: 1, links: [{from: gpus, to: nics, alpha_us: 0, bandwidth_gbps: %s}]}"
#: How many random matrices of each number of hosts.
_MATRICES = {4: 60, 5: 50, 6: 40, 7: 25, 8: 15, 9: 10}
#: Up to so many hosts each order is timed by itself: none is bounded away, and none taken for another.
_MOST_TIMED = 7
_HIDDEN = 3
_EFFORT, _EFFORT_OF_ALL = 1_500, 10_000_000
_RANDOM_ORDERS = 20
#: Hosts of a rack, and by how much its uplinks are oversubscribed.
_RACKS = ((8, 4), (16, 4), (8, 2), (8, 8))
#: Mean of 400 random orders over the best, by loads alone, as an earlier version of this model had it.
_BY_LOADS = {(8, 4): "3.98", (16, 4): "3.41", (8, 2): "1.99", (8, 8): "7.96"}

_INTRO = """\
`taccl order` ([page](../order.md)) exchanges hosts under a plan. Cloud Collectives (arXiv 2105.14088) reports
AllReduce up to 3.7x faster by order alone, in public clouds whose matrices are not published: the rows of
racks say which oversubscription such a factor would be, and test nothing."""

_TESTBED = """\
## An order on the testbed

Six hosts as [namespaces and shaped wires](../testbed.md), a wire for each pair: 18 to 22 Mbit/s in two racks
of three, 5 to 8 between them. Each wire's payload is measured, `taccl order` gets that matrix, and a ring
AllReduce runs over gloo in the machine's own order and in the order found, with its ranks renamed in a
verified file (`python -m benchmarks.testbed_orders`, while the computer was busy). Matrix 0 is off by as
much at 768 KB as at 3 MB, so it is not what messages cost besides their bytes; why is not known."""
_OF_ALL = f"""\
Random costs of each pair, ring and double binary tree in turn, AllReduce of 4 MB. Up to 9 hosts `taccl order`
compares every order: it times those that no bound excludes, and one of those that an automorphism of the plan
makes equal. Up to {_MOST_TIMED} hosts that is held against all n! orders, timed one by one. Beside it the
search of larger machines, with an effort of {_EFFORT}, next to the best of all orders."""


def random_costs(hosts: int, seed: int) -> np.ndarray:
    """Alphas of 5 to 50 us and 0.5 to 3 GB/s, shape (2, hosts, hosts)."""
    random = np.random.default_rng(seed)
    return np.stack([random.uniform(5, 50, (hosts, hosts)), random.uniform(0.5, 3, (hosts, hosts))])


def hidden_ring(hosts: int, seed: int) -> np.ndarray:
    """Costs that grow with the distance on a ring in an unknown order, and up to 10% more."""
    random = np.random.default_rng(seed)
    place = random.permutation(hosts)
    apart = np.abs(place[:, None] - place[None, :])
    apart = np.minimum(apart, hosts - apart)
    slower = np.where(apart > 1, (1 + 0.3 * (apart - 1)) * random.uniform(1, 1.1, apart.shape), 1.0)
    return np.stack([10 * slower, 3 / slower])


def of_costs(costs: np.ndarray, plan: str, size: str = "64MB") -> Traffic:
    """A plan on hosts with these costs."""
    hosts = costs.shape[1]
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            f"{a},{b},{costs[0, a, b]:.6f},{costs[1, a, b]:.6f}"
            for a in range(hosts)
            for b in range(hosts)
            if a != b
        ]
        (Path(folder) / "costs.csv").write_text("\n".join(["from,to,alpha_us,bandwidth_gbps", *rows]))
        path = Path(folder) / "cloud.yaml"
        path.write_text(f"name: cloud\nnodes: {hosts}\nnode: {_NODE % 5}\nfabric: costs.csv\n")
        return _traffic(path, plan, size)


def of_racks(hosts: int, rack: int, oversubscription: int) -> Traffic:
    """A ring of hosts in racks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "racks.yaml"
        path.write_text(
            f"name: racks\nnodes: {hosts}\nnode: {_NODE % 3.1}\nfabric:\n  alpha_us: 0\n"
            f"  bandwidth_gbps: 3.1\n  levels:\n"
            f"    - {{name: rack, nodes: {rack}, oversubscription: {oversubscription}}}\n"
            "    - {name: spine}\n"
        )
        return _traffic(path, "ring", "64MB")


def _traffic(path: Path, plan: str, size: str) -> Traffic:
    return traffic_for(plan, Request("allreduce", topology=path, size=size, chunks=1, executor=False))


def against_all() -> Iterator[tuple[str, ...]]:
    """For each number of hosts: how often the search found the best of all orders, and how far off it was."""
    for hosts, many in _MATRICES.items():
        found, worst, bounds, agreed = 0, 1.0, [], 0
        for seed in range(many):
            traffic = of_costs(random_costs(hosts, 1000 * hosts + seed), ("ring", "tree")[seed % 2], "4MB")
            best = find_order(traffic, Budget.of_work(_EFFORT_OF_ALL))
            assert best.is_exact
            if hosts <= _MOST_TIMED:
                agreed += min(map(traffic.time_us, permutations(range(hosts)))) == best.time_us
            searched = find_order(traffic, Budget.of_work(_EFFORT), most_exhaustive=0)
            assert searched.bound.value_us <= best.time_us * (1 + 1e-9)
            found += searched.time_us <= best.time_us * (1 + 1e-9)
            worst = max(worst, searched.time_us / best.time_us)
            bounds.append(searched.bound.value_us / best.time_us)
        print(f"{hosts} hosts: {found} of {many}, worst {worst:.4f}", flush=True)
        timed = f"{agreed} of {many}" if hosts <= _MOST_TIMED else "-"
        yield str(hosts), str(many), timed, f"{found} of {many}", f"{worst:.4f}x", f"{np.mean(bounds):.3f}"


def hidden() -> Iterator[tuple[str, ...]]:
    """Rings of 64 hosts: the time found over that of the hidden ring."""
    for seed in range(_HIDDEN):
        costs = hidden_ring(64, seed)
        traffic = of_costs(costs, "ring")
        place = np.random.default_rng(seed).permutation(64)
        planted = traffic.time_us(tuple(np.argsort(place).tolist()))
        found = find_order(traffic, Budget.of_work(_EFFORT), seed)
        print(f"hidden ring {seed}: {found.time_us / planted:.4f}", flush=True)
        yield (
            *(str(seed), f"{found.before_us:.0f}", f"{planted:.0f}", f"{found.time_us:.0f}"),
            *(f"{found.time_us / planted:.4f}x", f"{found.bound.value_us:.0f}"),
        )


def racks() -> Iterator[tuple[str, ...]]:
    """64 hosts in racks: what random orders take over the order found."""
    for rack, oversubscription in _RACKS:
        traffic = of_racks(64, rack, oversubscription)
        random = np.random.default_rng(0)
        found = find_order(traffic, Budget.of_work(_EFFORT))
        times = [traffic.time_us(tuple(random.permutation(64).tolist())) for _ in range(_RANDOM_ORDERS)]
        gain = np.array(times) / found.time_us
        print(f"racks of {rack}, {oversubscription}:1: {gain.mean():.2f}x", flush=True)
        yield (
            *(f"{64 // rack} racks of {rack}, {oversubscription}:1", f"{found.time_us:.0f}"),
            *(f"{found.bound.value_us:.0f}", f"{gain.mean():.2f}x", f"{gain.min():.2f} .. {gain.max():.2f}"),
            f"{_BY_LOADS[rack, oversubscription]}x",
        )


def on_the_testbed() -> Iterator[tuple[str, ...]]:
    """What `benchmarks.testbed_orders` kept: the ring's own order and the order found, predicted and run."""
    for row in map(json.loads, KEPT.read_text().splitlines() if KEPT.exists() else ()):
        (before_us, found_us), (own_us, ran_us) = row["predicted_us"], row["measured_us"]
        said, saw = before_us / found_us, own_us / ran_us
        yield (
            *(
                str(row["seed"]),
                units.format_size(row["size_bytes"]),
                f"{before_us / 1e3:.0f}",
                f"{own_us / 1e3:.0f}",
                f"{found_us / 1e3:.0f}",
            ),
            *(f"{ran_us / 1e3:.0f}", f"{said:.2f}x", f"{saw:.2f}x", f"{100 * (saw / said - 1):+.0f}%"),
        )


def testbed_section() -> str:
    """The section of the page."""
    header = (
        "matrix",
        "AllReduce of",
        *("own order, predicted (ms)", "measured", "order found, predicted (ms)", "measured"),
    )
    rows = report.table((*header, "gain predicted", "gain measured", "off"), on_the_testbed())
    return f"{_TESTBED}\n\n{rows}\n"


def main() -> None:
    """Measure all three, and write the page."""
    with ahead_of_time():
        every = report.table(
            (
                *(
                    "hosts",
                    "matrices",
                    "n! orders timed: same optimum",
                    "search found the best of all orders",
                ),
                *("worst", "bound of the plan / optimum, mean"),
            ),
            against_all(),
        )
        rings = report.table(
            ("ring", "own order (us)", "hidden ring (us)", "found (us)", "found / hidden", "bound (us)"),
            hidden(),
        )
        shared = report.table(
            (
                "64 hosts",
                "found (us)",
                "bound (us)",
                "random orders, mean",
                "least .. most",
                "by loads alone",
            ),
            racks(),
        )
    body = (
        f"## The search against every order\n\n{_OF_ALL}\n\n{every}\n\n"
        f"## Hidden rings of 64 hosts\n\n{rings}\n\n"
        f"## Racks\n\nA ring, 64 MB; {_RANDOM_ORDERS} random orders. The last column is the mean of 400 by "
        f"the largest load alone.\n\n{shared}\n\n{testbed_section()}"
    )
    report.write("orders_of_hosts", "Orders of hosts", _INTRO, report.wrapped(body))


if __name__ == "__main__":
    main()
