"""`best_order`: the order of hosts in which a plan is fastest, with two bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from taccl.analysis.any_cutting import any_cutting_bounds
from taccl.analysis.ordering.hostfile import Format, host_names, hosts_text
from taccl.analysis.ordering.plans import traffic_for
from taccl.analysis.ordering.renamed import files_of_plan, renamed
from taccl.analysis.ordering.search import FoundOrder, find_order
from taccl.analysis.ordering.traffic import Traffic
from taccl.analysis.ordering.tuning import FOR_BOUNDS, OF_WIRES
from taccl.backend.target import AnyTarget
from taccl.backend.targets.registry import DEFAULT_TARGET
from taccl.encoding.bounds import Proof
from taccl.errors import NoScheduleInTime, TacclError
from taccl.model import units
from taccl.model.collectives import COLLECTIVES
from taccl.support.arguments import whole_number
from taccl.support.budget import Budget, check_effort, check_time_limit
from taccl.support.report import Report, Reported, Table
from taccl.support.schemas import finite
from taccl.synthesis.inputs import inputs_of
from taccl.synthesis.lowering import OutputFile
from taccl.synthesis.predicted import wires_bound
from taccl.synthesis.request import MachineKeywords, Request

if TYPE_CHECKING:
    from typing_extensions import Unpack

_COLUMNS = ("rank", "host", "gpu")
_HEADER = ("", "time(us)", "why")
_LEAVES_OUT = "links alone: launches, protocols and what else is on the network take time of their own"


@dataclass(frozen=True, eq=False)
class Ordered(Reported):
    """The best order that was found for a plan.

    Parameters
    ----------
    request : the machine and so on.
    names : of the hosts, in the machine's own order.
    any_algorithm : what no algorithm beats on this machine, in whatever order; None: nothing was proved.
    """

    request: Request
    traffic: Traffic
    found: FoundOrder
    names: tuple[str, ...]
    any_algorithm: Proof | None

    @property
    def ranks(self) -> tuple[int, ...]:
        """The rank of the machine at each rank of the plan."""
        return tuple(self.traffic.rank_map(self.found.order).tolist())

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts in the order found; on one node, of its GPUs."""
        return tuple(self.names[host] for host in self.found.order)

    @property
    def time_us(self) -> float:
        """Of the plan in this order."""
        return self.found.time_us

    @property
    def before_us(self) -> float:
        """Of the plan in the machine's own order."""
        return self.found.before_us

    @property
    def bound_us(self) -> float:
        """Of this plan in any order."""
        return self.found.bound.value_us

    @property
    def any_algorithm_bound_us(self) -> float | None:
        """Of any algorithm."""
        return None if self.any_algorithm is None else self.any_algorithm.value_us

    @property
    def notes(self) -> tuple[str, ...]:
        """What the times leave out."""
        return (_LEAVES_OUT,)

    @property
    def orders_gpus(self) -> bool:
        """Whether the GPUs of one node are ordered, and not hosts."""
        return self.traffic.problem.topology.num_nodes == 1

    def text(self, format: Format = "hostfile") -> str:
        """The file for a launcher.

        Raises
        ------
        TacclError : GPUs of one node were ordered, which such a file cannot say; or no such format.
        """
        if self.orders_gpus:
            devices = ",".join(map(str, self.ranks))
            raise TacclError(
                "a file of hosts cannot order the GPUs of one node", hint=f"CUDA_VISIBLE_DEVICES={devices}"
            )
        return hosts_text(self.hosts, self.traffic.hosts.shape[1], format)

    def files(self, target: str | AnyTarget = DEFAULT_TARGET.name) -> tuple[OutputFile, ...]:
        """Verified files of the plan with its ranks renamed, for launchers that take no order.

        Raises
        ------
        TacclError : as `renamed` and `files_of_plan`.
        """
        return files_of_plan(renamed(self.traffic, self.found.order), self.request, target)

    def report(self) -> Report:
        """The times and bounds, and one row for each rank."""
        problem, found, per = self.traffic.problem, self.found, self.traffic.hosts.shape[1]
        rows = [
            {"rank": rank, "host": self.hosts[rank // per], "gpu": machine_rank}
            for rank, machine_rank in enumerate(self.ranks)
        ]
        figures = {
            "plan": self.traffic.name,
            "collective": problem.collective.name,
            "topology": problem.topology.name,
            "size_bytes": problem.size_bytes,
            "ranks": list(self.ranks),
            "hosts": list(self.hosts),
            "time_us": found.time_us,
            "bound_us": found.bound.value_us,
            "bound_source": found.bound.witness,
            "any_algorithm_bound_us": self.any_algorithm_bound_us,
            "any_algorithm_bound_source": None if self.any_algorithm is None else self.any_algorithm.witness,
            "before_us": finite(found.before_us),
            "is_exact": found.is_exact,
            "notes": list(self.notes),
        }
        size = units.format_size(problem.size_bytes)
        title = f"{self.traffic.name} for {problem.collective.name}, {size}, on {problem.topology.name}"
        if found.time_us and math.isfinite(found.before_us):
            title += f": {found.before_us / found.time_us:.2f}x as fast in the best order found"
        return Report("taccl.order/1", figures, _COLUMNS, rows, Table(title, self._cells(), _HEADER))

    def _cells(self) -> list[tuple[str, ...]]:
        found, any_us = self.found, self.any_algorithm_bound_us
        by = found.bound.witness
        below = "" if any_us is None or self.any_algorithm is None else self.any_algorithm.witness
        times = found.time_us / any_us if any_us else math.nan
        is_own = math.isfinite(found.before_us)
        own = (f"{found.before_us:.2f}", "") if is_own else ("-", "the machine lacks a link of the plan")
        return [
            ("own order", *own),
            ("best order found", f"{found.time_us:.2f}", " ".join(self.hosts)),
            ("bound: this plan, any order", f"{found.bound.value_us:.2f}", by),
            *(
                [("bound: any algorithm", f"{any_us:.2f}", f"at most {times:.2f}x faster; {below}")]
                if any_us
                else []
            ),
        ]


def best_order(
    plan: str | Path = "ring",
    collective: str = "allreduce",
    *,
    size: str | int,
    chunks: int | None = None,
    root: int | None = None,
    hosts: Sequence[str] | str | Path | None = None,
    time_limit: float = 30.0,
    effort: int | None = None,
    seed: int = 0,
    **machine: Unpack[MachineKeywords],
) -> Ordered:
    """The order of hosts (on one node: of GPUs) in which a plan is fastest.

    The plan's sends stay as they are; only who does them changes. Times are by links alone.

    Parameters
    ----------
    plan : `ring`, `tree`, `nccl` (what NCCL picks), a textbook algorithm by its name, or a file: a schedule,
        or anything that can be executed.
    collective, size, chunks, root, machine : as in `taccl.Request`; of a file the collective is its own.
    hosts : their names in the machine's order, or a file with one a line; default: node0, node1, ...
    time_limit : seconds for search and bounds. effort : units of work in place of seconds.

    Raises
    ------
    TacclError : the request or the file is wrong.
    NoScheduleInTime : no order was found in which the machine has all links.
    """
    check_time_limit(time_limit, example="30")
    if effort is not None:
        check_effort(effort)
    whole_number(seed, "the seed", TacclError, least=0, most=2**63 - 1)
    budget = Budget(time_limit) if effort is None else Budget.of_work(effort)
    request = Request(collective, size=size, chunks=1 if chunks is None else chunks, root=root, **machine)
    request = replace(request, executor=False)
    traffic = traffic_for(plan, request)
    found = find_order(traffic, budget.share(1 - FOR_BOUNDS), seed)
    topology = traffic.problem.topology
    if not math.isfinite(found.time_us):
        raise NoScheduleInTime(
            f"no order was found in which {topology.name} has all links of the plan {traffic.name}",
            hint="another plan, or more time",
        )
    names = tuple(f"{'gpu' if topology.num_nodes == 1 else 'node'}{host}" for host in traffic.own_order)
    if isinstance(hosts, str | Path):
        names = host_names(hosts, traffic.num_hosts)
    elif hosts is not None:
        names = tuple(hosts)
        if len(names) != traffic.num_hosts:
            raise TacclError(f"{len(names)} hosts are named, and {traffic.num_hosts} are ordered")
        if len(set(names)) != len(names):
            raise TacclError("two hosts have one name")
    return Ordered(request, traffic, found, names, _any_algorithm(traffic, request, budget))


def _any_algorithm(traffic: Traffic, request: Request, budget: Budget) -> Proof | None:
    """What no algorithm beats, however finely it cuts the size; None: nothing was proved."""
    problem = traffic.problem
    proved = [wires_bound(problem, budget.share(OF_WIRES))]
    if problem.collective.name in COLLECTIVES and problem.collective.root in (None, 0):
        machine = inputs_of(request).topology
        proved += [
            proof
            for proof in any_cutting_bounds(machine, problem.collective.name, (problem.size_bytes,), budget)
            if proof is not None
        ]
    best = max(proved, key=lambda proof: proof.value_us)
    return best if best.value_us > 0 else None
