"""`taccl topology`: the machines of the catalogue, and what a machine looks like."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from pathlib import Path

import click
import numpy as np

from taccl.cli import completion
from taccl.cli.options import FILE, json_option, nodes_option
from taccl.cli.output import claim_outputs, output_name, show_json, show_table, write_output
from taccl.model import units
from taccl.model.executor import Executor
from taccl.sketch.equal_nodes import nodes_are_equivalent
from taccl.sketch.layout import layout_of
from taccl.support.schemas import stamped
from taccl.support.size_limits import MAX_LINKS
from taccl.topologies import (
    CatalogueEntry,
    Figure,
    PhysicalTopology,
    catalogue,
    catalogue_entry,
    load_topology,
)
from taccl.topologies.drawing.page import machine_page
from taccl.topologies.executors.defaults import every_default
from taccl.topologies.executors.numbers import Defaults
from taccl.topologies.helpers import words
from taccl.topologies.reach import check_pairs, may_reach

#: Keys whose column has a shorter title.
_HEADER = {"bandwidth_gbps": "GB/s"}


#: Commands that are modules, as (module, function), imported when used: `list` and `show` load no engine.
_MODULES = {
    "check": ("topology_check", "check"),
    "fit": ("topology_fit", "fit"),
    "import": ("topology_import", "import_machine"),
}


class _Topology(click.Group):
    """The commands of this module and those that are modules of their own."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted((*super().list_commands(ctx), *_MODULES))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return super().get_command(ctx, cmd_name)
        module, function = _MODULES[cmd_name]
        command: click.Command = getattr(import_module(f"taccl.cli.{module}"), function)
        return command


@click.group(cls=_Topology)
def topology() -> None:
    """Machines: list the catalogue; show, check, import one; fit one to measurements."""


@topology.command("list")
@json_option
def list_topologies(as_json: bool) -> None:
    """List the machines that are known by name. A YAML file describes any other.

    \b
    KNOWN is what stands behind a machine:
      measured  its costs were measured and published
      dump      its counts were read from a real machine's dump; its speeds are a library's constants
      vendor    its counts are the vendor's or the cloud's; its speeds a library's, else the vendor's
      model     a study published it as its model of a machine
      shape     no machine, but a shape
    """
    entries = catalogue()
    if as_json:
        keys = ("name", "summary", "default_nodes", "confidence", "source")
        shown = [{key: getattr(entry, key) for key in keys} for entry in entries]
        show_json(stamped("taccl.topology.list/1", {"topologies": shown}))
        return
    header = ("NAME", "NODES", "KNOWN", "SOURCE", "ABOUT")
    show_table(header, [(e.name, e.default_nodes, e.confidence, e.source, e.summary) for e in entries])


@topology.command()
@click.argument("name", shell_complete=completion.machines)
@nodes_option
@click.option("--profile", type=FILE, help="A TACCL profile (JSON).")
@click.option(
    "--executor", "with_defaults", is_flag=True, help="Also what executing costs by default on its GPUs."
)
@click.option(
    "--html",
    type=FILE,
    metavar="OUT.html",
    help="Write a page for the browser with a drawing of the machine; - for standard output.",
)
@json_option
def show(
    name: str, nodes: int | None, profile: Path | None, with_defaults: bool, html: Path | None, as_json: bool
) -> None:
    """Show a machine: NAME of the catalogue, or a YAML file. With --html, only the page is written."""
    aside = claim_outputs((html,), (name, profile), as_json=as_json)
    machine = load_topology(name, nodes=nodes, profile=profile)
    entry = catalogue_entry(name) if machine.name == name and profile is None else None
    facts = _facts(machine, entry)
    if html is not None:
        write_output(html, machine_page(machine, facts))
        click.echo(f"wrote {output_name(html)}", err=aside or as_json)
        if not as_json:
            return
    links, paths = _link_classes(machine), _path_classes(machine)
    figures, helpers = () if entry is None else entry.figures, _helpers(machine)
    defaults = every_default(machine.gpu) if with_defaults else ()
    if as_json:
        executor = None if machine.executor is None else machine.executor.to_dict()
        known = {"executor": executor, "figures": [_figure_values(figure) for figure in figures]}
        known |= {"helper_list": helpers} if helpers else {}
        known |= {"defaults": [_default_values(each) for each in defaults]} if with_defaults else {}
        show_json(stamped("taccl.topology.show/1", facts | {"links": links, "paths": paths} | known))
        return
    _show_links(facts, links, paths)
    _show_helpers(helpers)
    if machine.executor is not None:
        _show_executor(machine.executor)
    if with_defaults:
        _show_defaults(machine, defaults)
    if figures:
        click.echo("\nFIGURES AND THEIR SOURCES")
        show_table(("", "value", "peak", "how", "source"), map(_figure_row, figures))


def _show_links(
    facts: dict[str, object], links: list[dict[str, object]], paths: list[dict[str, object]]
) -> None:
    """What the machine is, and its links and paths by their costs."""
    for label, value in facts.items():
        if value is not None:
            click.echo(f"{label:<12} {value}")
    for title, classes in (("LINKS", links), ("PATHS FROM RANK TO RANK", paths)):
        click.echo(f"\n{title}")
        header = [_HEADER.get(key, key) for key in classes[0]]
        show_table(header, [tuple(each.values()) for each in classes])


def _show_defaults(machine: PhysicalTopology, defaults: tuple[Defaults, ...]) -> None:
    """What executing costs by default, a table for each runtime."""
    if not defaults:
        click.echo(f"\nnothing is known by default of what executing costs on {machine.gpu or 'its GPUs'}")
    for each in defaults:
        click.echo(f"\nWHAT EXECUTING COSTS WITH {each.runtime.upper()} BY DEFAULT: {_errors(each)}")
        rows = (_figure_row(figure) for figure in each.figures())
        show_table(
            ("", "value", "how", "source"),
            [(what, value, how, source) for what, value, _, how, source in rows],
        )


def _errors(defaults: Defaults) -> str:
    """How far predictions may be off, by sizes."""
    off = ", ".join(
        f"+-{100 * error:.0f}%" + (f" from {units.format_size(least)}" if least else "")
        for least, error in defaults.errors
    )
    return f"{off} ({defaults.errors_source})"


def _default_values(defaults: Defaults) -> dict[str, object]:
    return {
        "runtime": defaults.runtime,
        "errors": [{"from_bytes": least, "error": error} for least, error in defaults.errors],
        "errors_source": defaults.errors_source,
        "figures": [
            {"quantity": each.quantity, "value": each.value, "how": each.how, "source": each.source}
            for each in defaults.figures()
        ],
    }


def _show_helpers(helpers: list[dict[str, object]]) -> None:
    """The helpers, where there are any."""
    if helpers:
        click.echo("\nHELPERS")
        show_table(("name", "at", "can", "GB/s", "memory (MB)"), [_helper_row(each) for each in helpers])


def _show_executor(executor: Executor) -> None:
    """What executing costs, by protocol, and then what no protocol changes."""
    click.echo("\nWHAT EXECUTING ADDS TO LINKS")
    costs = [protocol.to_dict() for protocol in executor.protocols.values()]
    show_table(("", *executor.protocols), [[key, *(_plain(cost[key]) for cost in costs)] for key in costs[0]])
    whole = {key: value for key, value in executor.to_dict().items() if key != "protocols"}
    click.echo()
    show_table(("", "any protocol"), [[key, _plain(value)] for key, value in whole.items()])


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


#: What the value of a figure is called by its unit.
_VALUES = {"": "count", "GB/s": "bandwidth_gbps", "us": "alpha_us", "us/MB": "beta_us_per_mb"}


def _figure_values(figure: Figure) -> dict[str, object]:
    values = dict.fromkeys(_VALUES.values()) | {_VALUES[figure.unit]: figure.value, "peak_gbps": figure.peak}
    return {"quantity": figure.quantity, **values, "how": figure.how, "source": figure.source}


def _figure_row(figure: Figure) -> tuple[str, ...]:
    value = f"{figure.value:g} {figure.unit}".rstrip()
    peak = "" if figure.peak is None else f"{figure.peak:g}"
    return figure.quantity, value, peak, figure.how, figure.source


def _facts(machine: PhysicalTopology, entry: CatalogueEntry | None) -> dict[str, object]:
    devices = Counter(device.kind for device in machine.devices)
    return {
        "name": machine.name,
        "nodes": machine.num_nodes,
        "ranks": machine.num_members,
        "helpers": machine.num_helpers or None,
        "devices": ", ".join(f"{count} {kind}" for kind, count in sorted(devices.items())),
        "occupancy": machine.occupancy,
        "chunk_bytes": machine.chunk_bytes,
        "confidence": None if entry is None else entry.confidence,
        "source": None if entry is None else entry.source,
    }


def _link_classes(machine: PhysicalTopology) -> list[dict[str, object]]:
    """Links that join the same kinds of devices at the same cost, counted."""
    return [
        {"count": each.count, "from": each.src_kind, "to": each.dst_kind}
        | _cost(each.alpha_us, each.beta_us_per_mb)
        for each in machine.link_classes
    ] or [{"count": 0}]


def _path_classes(machine: PhysicalTopology) -> list[dict[str, object]]:
    """Pairs of GPUs, or of a GPU and a helper, with a way past no other GPU at the same cost, counted."""
    classes: Counter[tuple[str, int, float, float]] = Counter()
    sources, times = _sources(machine)
    for src, dst in np.argwhere(may_reach(machine)[:sources]).tolist():
        path = machine.path(src, dst)
        if path is not None:
            where = "in a node" if machine.gpus[src].node == machine.gpus[dst].node else "between nodes"
            where = where if dst < machine.num_members else "to a helper"
            classes[where, len(path.links), path.alpha_us, path.beta_us_per_mb] += times
    return [
        {"pairs": pairs, "where": where, "links": links} | _cost(alpha, beta)
        for (where, links, alpha, beta), pairs in classes.items()
    ] or [{"pairs": 0}]


def _helpers(machine: PhysicalTopology) -> list[dict[str, object]]:
    """What each helper can do, and the bandwidth of its own that it has at its switch."""
    return [
        {
            "name": helper.name,
            "at": helper.at,
            "can": list(words(helper)),
            "bandwidth_gbps": None
            if helper.beta_us_per_mb is None
            else _cost(0.0, helper.beta_us_per_mb)["bandwidth_gbps"],
            "memory_mb": helper.memory_mb,
        }
        for helper in machine.gpus[machine.num_members :]
    ]


def _helper_row(helper: dict[str, object]) -> tuple[object, ...]:
    can = helper["can"]
    shown = helper | {"can": ", ".join(can) if isinstance(can, list) else can}
    return tuple("" if value is None else value for value in shown.values())


def _sources(machine: PhysicalTopology) -> tuple[int, int]:
    """Of how many GPUs routes are looked for, from the first on, and for how many times as many they stand.

    Of machines with too many routes, where nodes are equivalent, those of the first node stand for all.

    Raises
    ------
    TopologyError : there are too many routes, and nodes are not equivalent.
    """
    layout = layout_of(machine)
    if machine.num_ranks**2 > MAX_LINKS and machine.num_nodes > 1 and nodes_are_equivalent(machine, layout):
        return layout.smallest_node, machine.num_nodes
    check_pairs(machine)
    return machine.num_members, 1


def _cost(alpha_us: float, beta_us_per_mb: float) -> dict[str, object]:
    bandwidth = round(units.MB / (beta_us_per_mb * 1e3), 2) if beta_us_per_mb else None
    return {
        "alpha_us": round(alpha_us, 9),
        "beta_us_per_mb": round(beta_us_per_mb, 6),
        "bandwidth_gbps": bandwidth,
    }
