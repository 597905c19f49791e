"""`fit_measured()`: what benchmarks measured, as alphas and betas, and a machine's file with them in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from taccl.calibration.benchmarks.classes import Pair
from taccl.calibration.benchmarks.facts import Measured, Scope, together
from taccl.calibration.benchmarks.findings import findings
from taccl.calibration.benchmarks.quantities import Findings, LinkCost, Quantity
from taccl.calibration.benchmarks.registry import read_measured
from taccl.errors import MeasurementError, TopologyError
from taccl.model.units import MB, format_size, parse_size
from taccl.support.arguments import file_path
from taccl.support.files import read_bytes
from taccl.support.lists import few
from taccl.support.schemas import stamped
from taccl.topologies import Path as Way
from taccl.topologies import PhysicalTopology, load_topology
from taccl.topologies.as_yaml import topology_text
from taccl.topologies.load import names_a_file
from taccl.topologies.strict_yaml import Node, parse_yaml
from taccl.topologies.yaml_costs import Edit, with_numbers
from taccl.topologies.yaml_file import link_entries, parse_topology


@dataclass(frozen=True)
class Change:
    """A number of the machine that a measured one took the place of.

    Parameters
    ----------
    key : where it stands, `node.links[0].bandwidth_gbps`.
    before, after : in the unit of the key.
    source : how the new one is known.
    """

    key: str
    before: float
    after: float
    source: str


@dataclass(frozen=True)
class MeasuredFit:
    """What was fitted, and the machine with it.

    Parameters
    ----------
    formats : of the files.
    found : the numbers, and what could not be stated.
    changes : of the machine; empty without one.
    warnings : all of them, in sentences.
    machine_text : the YAML of the machine with the measured numbers; None without a machine.
    """

    formats: tuple[str, ...]
    found: Findings
    changes: tuple[Change, ...] = ()
    warnings: tuple[str, ...] = ()
    machine_text: str | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, object]:
        """The object that `taccl topology fit --json` prints."""
        return stamped(
            "taccl.topology.fit/1",
            {
                "formats": list(self.formats),
                "quantities": [
                    asdict(quantity) | {"bandwidth_gbps": quantity.gbps} for quantity in self.found.quantities
                ],
                "refused": [asdict(refusal) for refusal in self.found.refusals],
                "changes": [asdict(change) for change in self.changes],
                "warnings": list(self.warnings),
            },
        )


Ends = tuple[str, str]
#: A pair slower than this share of the entry that it belongs to is named.
_DEGRADED = 0.8


def fit_measured(
    files: Sequence[str | Path],
    *,
    topology: str | Path | None = None,
    nodes: int | None = None,
    profile: str | Path | None = None,
    at: str | int | None = None,
    between: Scope | None = None,
    seed: int = 0,
) -> MeasuredFit:
    """Alphas, betas and ports from the outputs of benchmarks.

    Parameters
    ----------
    files : what benchmarks printed; the same test in several files is repeats of it.
    topology : a machine as `load_topology` takes it, whose numbers the measured ones replace: in its file, or
        in one that is written for it.
    nodes, profile : of the machine, as in `load_topology`.
    at : the size of the messages that will be sent, such as `1MB`.
    between : whom sweeps join whose file does not tell: `gpus` of one node, or `nodes`.
    seed : of the bootstrap.

    Raises
    ------
    FileError : a file cannot be read.
    MeasurementError : a file that no reader knows or can use, or no file at all.
    TopologyError : the machine is faulty, no file can say it, or it has fewer GPUs than were measured.
    UnitError : a size that is none.
    """
    if not files:
        raise MeasurementError("there is nothing to fit", hint="name the output of a benchmark")
    at_bytes = None if at is None else parse_size(at)
    measured: Measured = together(read_measured(path) for path in files)
    found = findings(measured, at_bytes=at_bytes, between=between, seed=seed)
    if topology is None:
        return MeasuredFit(measured.formats, found, (), found.warnings)
    base = _Base.load(topology, nodes, profile)
    changer = _Changer(base)
    changer.take(found)
    untold = [sweep for sweep in measured.sweeps if sweep.scope is None and sweep.collective is None]
    warnings = [*found.warnings, *changer.warnings]
    if untold and between is None:
        warnings.append(
            f"{untold[0].place}: {untold[0].tool} does not tell whom it joins; "
            "say --between gpus or --between nodes for it to reach the machine"
        )
    if not changer.edits:
        warnings.append("nothing measured speaks of a number of the machine: it stays as it is")
    text = base.with_edits([edit for edit, _ in changer.edits.values()])
    changes = tuple(change for _, change in changer.edits.values())
    return MeasuredFit(measured.formats, found, changes, tuple(warnings), text)


@dataclass(frozen=True)
class _Base:
    """The machine's file: its text, what it means, and which entry of `links` each link comes from."""

    path: Path | None  # None where the text is written here
    text: str
    root: Node
    machine: PhysicalTopology  # of two nodes at least, where it has nodes
    prefix: tuple[str, ...]
    entries: tuple[tuple[Node, tuple[Ends, ...]], ...]

    @classmethod
    def load(cls, source: str | Path, nodes: int | None, profile: str | Path | None) -> _Base:
        if names_a_file(source) and nodes is None and profile is None:
            path = file_path(source)
            try:
                return cls.parsed(read_bytes(path).decode("utf-8-sig"), path)
            except UnicodeDecodeError:
                raise TopologyError("the file is not text in UTF-8", path=path) from None
        machine = load_topology(source, nodes, profile)
        of = f"{source}, {machine.num_nodes} node(s)" + ("" if profile is None else f", with {profile}")
        return cls.parsed(topology_text(machine, [f"written by taccl topology fit of {of}"]), None)

    @classmethod
    def parsed(cls, text: str, path: Path | None) -> _Base:
        machine = parse_topology(text, path=path)
        root = parse_yaml(text, path, TopologyError)
        keys = {key.raw for key, _ in root.items()}
        if machine.num_nodes == 1 and "fabric" in keys:
            machine = parse_topology(text, path=path, nodes=2)
        prefix = ("node",) if "node" in keys else ()
        return cls(path, text, root, machine, prefix, link_entries(root))

    def entries_of(self, link_index: int) -> list[int]:
        """The entries that a link is made of: several, where they are parallel."""
        link = self.machine.links[link_index]
        ends = (link.src.rpartition(".")[2], link.dst.rpartition(".")[2])
        return [at for at, (_, pairs) in enumerate(self.entries) if ends in pairs]

    def with_edits(self, edits: Sequence[Edit]) -> str:
        """The file with these numbers; read again, so that no file is written that nobody can read.

        Raises
        ------
        TopologyError : the new numbers make no machine.
        """
        text = with_numbers(self.text, edits)
        parse_topology(text, path=self.path)
        return text


class _Changer:
    """Puts what was found into the machine's numbers, one key at most once."""

    def __init__(self, base: _Base) -> None:
        self.base = base
        self.edits: dict[str, tuple[Edit, Change]] = {}
        self.warnings: list[str] = []

    def take(self, found: Findings) -> None:
        costs = {cost.scope: cost for cost in found.costs}
        if found.pair_gbps:
            self._take_pairs(found.pair_gbps, found.pair_source)
        if "gpus" in costs:
            self._take_sweep_in_node(costs["gpus"], has_pairs=bool(found.pair_gbps))
        if "nodes" in costs:
            self._take_between_nodes(costs["nodes"])
            self._compare_nics(found.quantities, costs["nodes"].beta)

    # ------------------------------------------------------------ inside a node

    def _take_pairs(self, pairs: Mapping[Pair, float], source: str) -> None:
        """Of each entry, the median of the pairs whose way it limits."""
        per_node = self.base.machine.num_members // self.base.machine.num_nodes
        most = max(max(pair) for pair in pairs)
        if most >= per_node:
            raise TopologyError(
                f"GPU {most} was measured, but a node of this machine has only {per_node} GPUs",
                path=self.base.path,
            )
        limited: dict[int, dict[Pair, float]] = {}
        scale: dict[int, float] = {}
        no_way = []
        for pair, value in pairs.items():
            way = self.base.machine.path(*pair)
            if way is None:
                no_way.append(f"{pair[0]}-{pair[1]}")
                continue
            for index in self._slowest(way):
                for entry in self.base.entries_of(index):
                    limited.setdefault(entry, {})[pair] = value
                    scale[entry] = way.beta_us_per_mb
        if no_way:
            self.warnings.append(
                f"{source}: the machine has no way between GPUs {few(no_way)}; they are left out"
            )
        for entry, values in limited.items():
            median = float(np.median(list(values.values())))
            low, high = min(values.values()), max(values.values())
            comment = f"fitted, {source}, {len(values)} pairs {low:.4g} .. {high:.4g} GB/s"
            self._scale_beta(self._entry(entry), MB / (median * 1e3), scale[entry], comment)
            self.warnings += [
                f"{source}: GPU {a} -> GPU {b} moves {value:.4g} GB/s, but links like its have {median:.4g}: "
                "a degraded link? The machine has it like the others"
                for (a, b), value in values.items()
                if value < _DEGRADED * median
            ]

    def _slowest(self, way: Way) -> list[int]:
        return [
            index
            for index in way.links
            if self.base.machine.links[index].beta_us_per_mb >= way.beta_us_per_mb * (1 - 1e-9)
        ]

    def _take_sweep_in_node(self, cost: LinkCost, *, has_pairs: bool) -> None:
        machine = self.base.machine
        first = [gpu for gpu in range(machine.num_ranks) if machine.gpus[gpu].node == machine.gpus[0].node]
        routes = [way for a in first for b in first if (way := machine.path(a, b)) is not None]
        if cost.alpha is not None:
            for way in routes:
                for index in way.links:
                    old, share = machine.links[index].alpha_us, 1 / len(way.links)
                    new = cost.alpha.value * (old / way.alpha_us if way.alpha_us else share)
                    for entry in self.base.entries_of(index):
                        self._set(self._entry(entry), "alpha_us", new, _comment(cost.alpha))
        if cost.beta is not None and not has_pairs:
            betas = {round(way.beta_us_per_mb, 9) for way in routes}
            if len(betas) > 1:
                self.warnings.append(
                    f"{cost.beta.source}: the machine has {len(betas)} classes of links between GPUs; "
                    "one sweep does not tell which it is, a matrix of all pairs does"
                )
                return
            for way in routes:
                for index in self._slowest(way):
                    for entry in self.base.entries_of(index):
                        self._scale_beta(
                            self._entry(entry), cost.beta.value, way.beta_us_per_mb, _comment(cost.beta)
                        )

    # ------------------------------------------------------------ between nodes

    def _take_between_nodes(self, cost: LinkCost) -> None:
        """The fabric has what was measured; what else is on the way is no slower than it."""
        keys = self.base.root.keys()
        fabric = keys.get("fabric")
        if fabric is None or fabric.kind != "mapping":
            why = "has no fabric" if fabric is None else "takes the costs of its fabric from a table"
            self.warnings.append(f"what was measured between nodes is left out: the machine {why}")
            return
        machine = self.base.machine
        node = machine.gpus[0].node
        others = [rank for rank in range(machine.num_ranks) if machine.gpus[rank].node != node]
        routes = [way for rank in others for gpu in range(others[0]) if (way := machine.host_path(gpu, rank))]
        said = fabric.keys()
        if cost.alpha is not None and routes:
            of_fabric = said["alpha_us"].number()
            way = min(routes, key=lambda each: (each.alpha_us, each.beta_us_per_mb))
            rest = max(0.0, way.alpha_us - of_fabric)
            if rest > cost.alpha.value:
                self.warnings.append(
                    f"{cost.alpha.source}: {cost.alpha.value:.4g} us between nodes is less than the "
                    f"{rest:.4g} us that the machine has on the way to and from the fabric, which stay"
                )
            note = (
                f"{_comment(cost.alpha)}, less {rest:.4g} on the way to it" if rest else _comment(cost.alpha)
            )
            self._set((("fabric",), fabric), "alpha_us", max(0.0, cost.alpha.value - rest), note)
        if cost.beta is not None:
            self._set_beta((("fabric",), fabric), cost.beta.value, _comment(cost.beta))
            for way in routes:
                for index in way.links:
                    link = machine.links[index]
                    if link.beta_us_per_mb > cost.beta.value * (1 + 1e-9):
                        for entry in self.base.entries_of(index):
                            note = f"at least as fast as the fabric, {cost.beta.source}"
                            self._scale_beta(self._entry(entry), cost.beta.value, link.beta_us_per_mb, note)

    def _compare_nics(self, quantities: Sequence[Quantity], beta: Quantity | None) -> None:
        """What several pairs moved together is what the NICs of a node can move."""
        nics = self.base.machine.nic_count(0)
        for each in quantities:
            if each.name == "ports" and each.link == "between nodes" and each.value != nics:
                self.warnings.append(
                    f"{each.source}: nodes have {each.value:g} independent port(s) between them, "
                    f"but those of the machine have {nics} NIC(s)"
                )
            is_sum = each.name == "gbps" and each.link.endswith("all at once")
            if is_sum and beta is not None and beta.gbps and nics * beta.gbps > 1.1 * each.value:
                self.warnings.append(
                    f"{each.source}: all pairs together move {each.value:.4g} GB/s, but the machine's {nics} "
                    f"NICs now {nics * beta.gbps:.4g}: one pair is not what a NIC has under load"
                )

    # ------------------------------------------------------------ numbers

    def _entry(self, at: int) -> tuple[tuple[str | int, ...], Node]:
        return (*self.base.prefix, "links", at), self.base.entries[at][0]

    def _scale_beta(
        self, place: tuple[tuple[str | int, ...], Node], beta: float, of_link: float, comment: str
    ) -> None:
        """As much faster or slower as the link became; parallel entries share it as they did."""
        self._set_beta(place, _beta_of(place[1]) * beta / of_link, comment)

    def _set_beta(self, place: tuple[tuple[str | int, ...], Node], beta: float, comment: str) -> None:
        if any(key.raw == "bandwidth_gbps" for key, _ in place[1].items()):
            self._set(place, "bandwidth_gbps", MB / (beta * 1e3), comment)
        else:
            self._set(place, "beta_us_per_mb", beta, comment)

    def _set(self, place: tuple[tuple[str | int, ...], Node], key: str, value: float, comment: str) -> None:
        keys, node = place
        name = "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in (*keys, key)).lstrip(
            "."
        )
        if name in self.edits:
            return
        before = next(child for own, child in node.items() if own.raw == key).number()
        shown = f"{value:.6g}"
        edit = Edit((*keys, key), shown, comment)
        self.edits[name] = (edit, Change(name, before, float(shown), comment))


def _beta_of(entry: Node) -> float:
    values = entry.keys()
    if "bandwidth_gbps" in values:
        return MB / (values["bandwidth_gbps"].number() * 1e3)
    return values["beta_us_per_mb"].number()


def _comment(quantity: Quantity) -> str:
    """How a fitted number is known; of a beta also as the bandwidth that it is."""
    parts = ["fitted", quantity.source]
    if quantity.sizes_bytes is not None:
        parts.append(" .. ".join(format_size(size) for size in dict.fromkeys(quantity.sizes_bytes)))
    if quantity.name == "beta_us_per_mb" and quantity.low:
        least, most = MB / (quantity.high * 1e3), MB / (quantity.low * 1e3)
        parts.append(f"90% {least:.4g} .. {most:.4g} GB/s")
    else:
        parts.append(f"90% {quantity.low:.4g} .. {quantity.high:.4g} us")
    parts += ["weak"] if quantity.weak else []
    return ", ".join([*parts, quantity.note] if quantity.note else parts)
