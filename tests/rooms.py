"""The rooms of `taccl`, and who may import whom: a test and docs/architecture.md are made from it.

python -m tests.rooms        writes the tables into the page
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"


@dataclass(frozen=True)
class Room:
    """One row of a table.

    Parameters
    ----------
    name : of the package or module, dotted from the folder of its table.
    holds : what lives there.
    imports : the rooms that it may import; it may import all that these may, too.
    outside : for a room inside another one: what of the rooms of `taccl` it may import, if not all that the
        room around it may.
    """

    name: str
    holds: str
    imports: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


#: From the bottom to the top.
ROOMS = (
    Room("errors", "what can go wrong, by meaning; each error has its place, its hint and its exit code"),
    Room(
        "support",
        "what knows no collectives: arguments, files, lines and cells of text, the budget of a search, "
        "compiled loops, plugins, data frames and HTML, JSON schemas; `pages/` is what all pages for the "
        "browser share",
        ("errors",),
    ),
    Room(
        "model",
        "the nouns: units, tolerances, collectives, networks, executors, problems, schedules, their checks",
        ("support",),
    ),
    Room(
        "topologies",
        "machines: the catalogue, generators, YAML; `importers/` reads what tools print of them; `drawing/` "
        "draws them",
        ("model",),
    ),
    Room(
        "sketch",
        "the sketch language: a sketch, a machine and a collective become a `Problem`",
        ("topologies",),
    ),
    Room("encoding", "engines, lower bounds, symmetry, and the portfolio that runs them", ("model",)),
    Room(
        "backend",
        "targets: lowering, files, verification, execution on arrays, simulation, show",
        ("model",),
    ),
    Room(
        "synthesis",
        "a request becomes a checked schedule and its files: the search, the choice of chunks and of "
        "configurations, a Dask cluster, the result",
        ("sketch", "encoding", "backend"),
    ),
    Room("api", "`synthesize()` and `make_problem()`: the walk, written out once", ("synthesis",)),
    Room(
        "analysis",
        "questions about a problem, a machine or a file: bounds, explanations, SCCL's frontier, simulation, "
        "what stock libraries do, curves over sizes, orders of hosts, training steps",
        ("api",),
    ),
    Room(
        "calibration",
        "times become costs: what benchmarks print, measured runs, and small programs that tell costs apart",
        ("analysis",),
    ),
    Room(
        "deployment",
        "files into a job: plans converted and registered, folders of files, tuner files, and jobs that run "
        "them",
        ("calibration",),
    ),
    Room(
        "torch",
        "plans in a PyTorch job: functions, and a process group; the one room that imports torch",
        ("deployment",),
    ),
    Room("jax", "plans in a JAX program, as permutations; the one room that imports jax", ("deployment",)),
    Room("testing", "checks that an engine, a bound, a target or a format keeps its promises", ("analysis",)),
    Room(
        "cli",
        "one module for each group of commands; the only room that prints",
        ("torch",),
    ),
)

#: The rooms of `encoding`. An engine's package is a room of its own and may import what `engines.*` may.
ENCODING = (
    Room("symmetry", "groups of permutations, orbits, the one check of what is a symmetry"),
    Room(
        "core",
        "what all use: demand, timing, distances, paths, linear programs, list scheduling",
        ("symmetry",),
    ),
    Room("quotient", "a symmetric problem made smaller, and its schedule made whole again", ("core",)),
    Room("members", "a problem without the helpers of its machine, and its schedules with them", ("core",)),
    Room("instance", "a problem and all that is derived from it, each thing once", ("quotient", "members")),
    Room(
        "sending_model",
        "the scheduling model for CP-SAT: items on links with shared sends, one rule a function; whole "
        "problems, and the inside of a node",
        ("instance",),
    ),
    Room("bounds", "one proof a module, each with its witness and its remedy", ("sending_model",)),
    Room("conflicts", "which lines of a sketch contradict each other", ("instance",)),
    Room("frontier", "SCCL's synchronous encoding and its walk ([page](pareto.md))", ("bounds",)),
    Room("engines.tuning", "numbers of the engines that are one module", ()),
    Room(
        "engines.engine",
        "what an engine is: its features, and which instances it serves",
        ("engines.tuning", "instance"),
    ),
    Room(
        "engines.by_phases",
        "an engine run on each phase of a collective",
        ("engines.engine", "engines.tuning"),
    ),
    Room(
        "engines.by_cuts",
        "an engine's answers for several numbers of chunks",
        ("engines.engine",),
    ),
    Room(
        "engines.turned",
        "an engine run on the Gather that a Scatter is backwards",
        ("engines.engine",),
    ),
    Room(
        "engines.part_of_all",
        "a Gather and a Broadcast as part of what an engine builds for an AllGather and an AllReduce",
        ("engines.engine", "engines.tuning"),
    ),
    Room(
        "engines.*",
        "one package an engine ([pages](engines.md))",
        ("engines.engine", "sending_model"),
    ),
    Room(
        "engines.needs",
        "what engines need of a problem, besides that they serve it",
        ("engines.engine", "engines.tuning"),
    ),
    Room(
        "engines.registry",
        "the one module that names all engines",
        ("engines.by_cuts", "engines.by_phases", "engines.needs", "engines.part_of_all", "engines.turned"),
    ),
    Room(
        "portfolio",
        "how engines share the time: rounds of equal turns, then those that improved last",
        ("bounds", "engines.by_phases", "engines.registry"),
    ),
)

#: The rooms of `backend`.
BACKEND = (
    Room("program", "two-sided programs: ranks, thread blocks, steps"),
    Room("step_rows", "the steps of a long file, as columns", ("program",)),
    Room("plan", "one-sided programs: blocks that write into their peers' memory", ("program",)),
    Room("limits", "how much the readers of MSCCL-XML have room for", ("program",)),
    Room("msccl_xml", "program <-> file", ("step_rows",)),
    Room("mscclpp", "plan <-> file", ("plan",)),
    Room(
        "machine",
        "what any file does, as acts of thread blocks: one run, order, races, deadlock, contents, findings",
    ),
    Room(
        "verify.msccl_xml",
        "a program: would a runtime take it, does it compute the collective, can it hang",
        ("machine", "msccl_xml"),
    ),
    Room("verify.mscclpp", "the same questions of a plan", ("machine", "mscclpp")),
    Room("execute", "a program or a plan run on arrays; shares nothing with `verify`", ("plan",)),
    Room("faces", "which helpers of a machine are switches that sum or copy for its GPUs"),
    Room("simulate", "how long a call takes", ("faces", "verify.msccl_xml", "verify.mscclpp")),
    Room("show", "text, a page, a trace", ("simulate",)),
    Room(
        "unfolded",
        "what a file unfolds into: all that is needed to show, simulate, run and predict it",
        ("execute", "show"),
    ),
    Room("two_sided", "a program, unfolded", ("unfolded",)),
    Room("one_sided", "a plan, unfolded", ("unfolded",)),
    Room(
        "rounds",
        "any verified file as rounds of messages: who has what, when, where it lies; checked, and timed",
        ("unfolded",),
    ),
    Room("target", "what a kind of file can hold, and how a schedule becomes one", ("unfolded",)),
    Room("lower", "schedule -> actions, what each rank does in one order -> program", ("limits", "target")),
    Room(
        "lower_plan",
        "actions or program -> plan, by passes over what waits for what; plans by groups of switches",
        ("lower",),
    ),
    Room("flat_json", "schedule -> flat JSON of actions, read back, verified, run and unfolded", ("lower",)),
    Room(
        "graphs",
        "rings and trees that stock libraries take: of schedules and machines, written, read back, verified",
        ("two_sided", "target"),
    ),
    Room("placement", "which chunk is summed where, for servers that aggregate", ("target",)),
    Room(
        "traces",
        "programs and actions as traces for simulators of others",
        ("flat_json",),
    ),
    Room(
        "targets",
        "each target's row, and the registry of all",
        ("lower_plan", "flat_json", "graphs", "placement", "two_sided", "one_sided"),
    ),
)

#: The rooms of `analysis`; `*` are the modules that are directly in its folder.
ANALYSIS = (
    Room(
        "baselines",
        "what stock libraries do: NCCL's choice and time, RCCL's choice, published measurements",
        outside=("topologies",),
    ),
    Room("explained", "why there is no schedule: the lines that are to blame, and what would help"),
    Room(
        "*",
        "bounds, the frontier, simulated files, checks and failures of a machine, repair: a module for each",
        ("baselines", "explained"),
    ),
    Room(
        "exploration",
        "which algorithm at which size: curves over all sizes, their envelope, and where to search next",
        ("*",),
    ),
    Room(
        "ordering",
        "which host takes which place of a plan: the order in which it is fastest, and what no order beats",
        ("*",),
    ),
    Room(
        "training",
        "a training step: layers, buckets, how long it waits for its collectives, which GPUs suit it",
        ("exploration",),
    ),
)

#: The rooms of `deployment`; `*` are the modules that are directly in its folder.
DEPLOYMENT = (
    Room("testbed", "a machine as namespaces and shaped wires of this computer", outside=("topologies",)),
    Room(
        "tuners",
        "which algorithm a stock library takes at which size: tuner files, written and checked",
        outside=("analysis",),
    ),
    Room("*", "plans converted, and a module that registers them", outside=("analysis",)),
    Room("bundles", "a folder to deploy: files for a range of sizes, how to run and to check them", ("*",)),
    Room("jobs", "which file of a folder a call takes, and what one rank does then", ("bundles",)),
    Room("mpi", "plans under mpirun; the one room that imports mpi4py", ("jobs",)),
)

TABLES = {
    "taccl": ROOMS,
    "taccl.encoding": ENCODING,
    "taccl.backend": BACKEND,
    "taccl.analysis": ANALYSIS,
    "taccl.deployment": DEPLOYMENT,
}


def reach(rooms: tuple[Room, ...], name: str) -> set[str]:
    """The room of this name, and all rooms that it may import."""
    rows = {room.name: room for room in rooms}
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        room = waiting.pop()
        if room not in reached:
            reached.add(room)
            waiting += rows[room].imports
    return reached


def table(package: str) -> str:
    """The rooms of a package as a table of Markdown, from the bottom to the top."""
    rows = [f"| `{room.name}` | {room.holds} | {_imports(room)} |\n" for room in TABLES[package]]
    return "| room | what lives there | may import |\n|---|---|---|\n" + "".join(rows)


def _imports(room: Room) -> str:
    names = (*room.imports, *(f"taccl.{name}" for name in room.outside))
    return ", ".join(f"`{name}`" for name in names) or "-"


def with_tables(page: str) -> str:
    """The page with the tables of today."""
    for package in TABLES:
        begin, end = f"<!-- rooms of {package} -->\n", "<!-- end of rooms -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}{table(package)}{end}{rest.partition(end)[2]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
