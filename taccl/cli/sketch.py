"""`taccl sketch`: the published sketches, and help with writing one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from taccl.cli import completion
from taccl.cli.options import FILE, json_option, nodes_option
from taccl.cli.output import STDOUT, claim_outputs, show_json, show_table, write_output
from taccl.errors import CollectiveError, FileError, InfeasibleError
from taccl.model.collectives import COLLECTIVES, chunk_bytes, make_collective
from taccl.model.units import MB, format_size
from taccl.sketch import (
    Sketch,
    apply_sketch,
    find_sketch,
    load_sketch,
    published_sketches,
    sketch_schema,
    starting_sketch,
)
from taccl.support.files import write_atomically
from taccl.support.schemas import stamped
from taccl.topologies import PhysicalTopology, load_topology


@click.group()
def sketch() -> None:
    """Communication sketches: list, show, check, start one."""


@sketch.command("list")
@json_option
def list_sketches(as_json: bool) -> None:
    """List the published sketches."""
    sketches = published_sketches()
    if as_json:
        show_json(stamped("taccl.sketch.list/1", {"sketches": [_facts(each) for each in sketches]}))
        return
    show_table(
        ("NAME", "TOPOLOGY", "NODES", "SIZE", "CHUNKS", "ABOUT"),
        [
            (
                each.name,
                each.topology or "any",
                each.nodes or "any",
                format_size(each.size) if each.size else "-",
                each.chunks_per_rank,
                each.description,
            )
            for each in sketches
        ],
    )


@sketch.command()
@click.argument("name", shell_complete=completion.sketches)
def show(name: str) -> None:
    """Print the file of a sketch."""
    path = find_sketch(name)
    load_sketch(path)
    click.echo(path.read_text(encoding="utf-8"), nl=False)


@sketch.command()
@click.argument("file", shell_complete=completion.sketches)
@click.option(
    "--topology",
    shell_complete=completion.machines,
    metavar="NAME|FILE",
    help="The machine. Default: the one that the sketch names.",
)
@click.option("--nodes", type=int, help="Number of nodes. Default: the sketch's.")
@click.option("--profile", type=FILE, help="A TACCL profile (JSON).")
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    file: str,
    topology: str | None,
    nodes: int | None,
    profile: Path | None,
    as_json: bool,
) -> None:
    """Check a sketch: its language, that it fits the machine, that its symmetries are ones, and that
    each collective can be done with what it allows.

    No solver is run. Exit code 0 if some collective can be done, 3 if none can.
    """
    from taccl.synthesis.inputs import (
        choose_topology,  # it loads the solvers, which no other command here needs
    )

    design = load_sketch(find_sketch(file))
    machine = choose_topology(topology, design, nodes=nodes, profile=profile)
    verdicts = [_try(design, machine, collective) for collective in COLLECTIVES]
    if as_json:
        facts = _facts(design) | {"ranks": machine.num_members, "collectives": verdicts}
        show_json(stamped("taccl.sketch.check/1", facts))
    else:
        click.echo(f"sketch {design.name} on {machine.name}: {machine.num_members} ranks")
        show_table(
            ("COLLECTIVE", "LINKS", "VERDICT"),
            [
                (verdict["collective"], verdict["links"] or "-", verdict["reason"] or "ok")
                for verdict in verdicts
            ],
        )
        for note in dict.fromkeys(note for verdict in verdicts for note in verdict["notes"]):
            click.echo(f"note: {note}")
    if not any(verdict["ok"] for verdict in verdicts):
        ctx.exit(InfeasibleError.exit_code)


def _try(design: Sketch, machine: PhysicalTopology, name: str) -> dict[str, Any]:
    """What becomes of one collective; errors that concern the sketch itself are raised."""
    collective = make_collective(name, machine.num_members, design.chunks_per_rank)
    collective = collective.with_helpers(machine.num_helpers)
    facts: dict[str, Any] = {"collective": name, "ok": False, "links": None, "notes": [], "reason": None}
    try:
        chunks = collective.chunks_per_size
        size = machine.num_members * MB if design.size is None else chunk_bytes(chunks, design.size)
        applied = apply_sketch(design, machine, collective, size / MB)
    except (InfeasibleError, CollectiveError) as reason:
        return facts | {"reason": str(reason)}
    links = applied.problem.topology.num_links
    return facts | {"ok": True, "links": links, "notes": list(applied.notes)}


@sketch.command()
@click.argument("topology", shell_complete=completion.machines)
@nodes_option
@click.option(
    "-o", "--output", type=FILE, help="Write to a file that is not there yet; - for standard output."
)
def init(topology: str, nodes: int | None, output: Path | None) -> None:
    """Print a commented sketch for TOPOLOGY (a name or a YAML file), to start from."""
    claim_outputs((output,), (topology,))
    text = starting_sketch(load_topology(topology, nodes=nodes), topology)
    if output is None or output == STDOUT:
        write_output(STDOUT, text)
        return
    if output.exists():
        raise FileError(
            "this file is there already", path=output, hint="another name; nothing is overwritten"
        )
    write_atomically(output, text)
    click.echo(f"wrote {output}; next: taccl sketch check {output}")


@sketch.command()
def schema() -> None:
    """Print the JSON Schema (draft-07) of sketches, for editors."""
    show_json(sketch_schema())


def _facts(design: Sketch) -> dict[str, object]:
    return {
        "name": design.name,
        "topology": design.topology,
        "nodes": design.nodes,
        "size_bytes": design.size,
        "chunks_per_rank": design.chunks_per_rank,
        "description": design.description,
        "path": design.path,
    }
