"""`deploy()`: plans in files become a module, alone or in a folder of its own with the plans next to it."""

from __future__ import annotations

import keyword
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from taccl.analysis.simulated import simulate_file
from taccl.deployment.first_run import cautions, log_lines, test_command, torchrun_commands
from taccl.deployment.module import module_text
from taccl.deployment.order import LAST, Predicted, Preferred, preferences
from taccl.deployment.plans import DeployedPlan, read_plans
from taccl.errors import FileError, TacclError
from taccl.support.arguments import shown
from taccl.support.files import write_atomically, write_folder
from taccl.support.schemas import stamped
from taccl.synthesis.request import MachineKeywords, spelled_out

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: What the module is called in a folder of its own.
MODULE = "taccl_plans"


@dataclass(frozen=True)
class Deployment:
    """Verified plans, and which calls take which.

    Parameters
    ----------
    order : for each collective and number of ranks, which plans come first, from small sizes to large.
    predicted : the times that decided, where plans serve the same calls.
    notes : what the user should know of all of them.
    """

    plans: tuple[DeployedPlan, ...]
    order: tuple[Preferred, ...]
    predicted: tuple[Predicted, ...]
    notes: tuple[str, ...]

    def text(self, path: str | Path | None = None) -> str:
        """The module that is to lie at a path; without one, it names its plans by their whole paths.

        Raises
        ------
        FileError : Python imports no module of that name.
        """
        if path is None:
            name, places = MODULE, {plan.name: str(plan.path.resolve()) for plan in self.plans}
        else:
            name, folder = _module_name(Path(path)), Path(path).resolve().parent
            places = {plan.name: os.path.relpath(plan.path.resolve(), folder) for plan in self.plans}
        return module_text(name, self.plans, places, self.order)

    def folder_texts(self) -> dict[str, str | bytes]:
        """The files of a folder of its own by name: the plans, as they were verified, then the module.

        Raises
        ------
        FileError : two plans would have the same name there.
        """
        texts: dict[str, str | bytes] = {}
        for plan in self.plans:
            if plan.path.name in (*texts, f"{MODULE}.py"):
                raise FileError("another file of this name goes into the folder", path=plan.path)
            texts[plan.path.name] = plan.content
        places = {plan.name: plan.path.name for plan in self.plans}
        return {**texts, f"{MODULE}.py": module_text(MODULE, self.plans, places, self.order)}

    def write(self, path: str | Path) -> Path:
        """Write the module to `path`.py, or into the new or empty folder `path` with all plans next to it.

        Returns
        -------
        The module's file.

        Raises
        ------
        FileError : it cannot be written, or would be in place of a plan; nothing is left half done.
        """
        path = Path(path)
        if not is_module(path):
            write_folder(path, self.folder_texts())
        elif path.resolve() in {plan.path.resolve() for plan in self.plans}:
            raise FileError("is one of the plans", path=path)
        else:
            write_atomically(path, self.text(path))
        return module_file(path)

    def to_dict(self, output: Path | None = None) -> dict[str, object]:
        """What `taccl deploy --json` prints: plain values, in units by their keys.

        Parameters
        ----------
        output : what was handed to `write`; None: nothing was written.
        """
        return stamped(
            "taccl.deploy/1",
            {
                "module": None if output is None else str(module_file(output)),
                "plans": [self._plan_as_dict(plan, output) for plan in self.plans],
                "order": [
                    {
                        "collective": row.collective,
                        "ranks": row.ranks,
                        "up_to_bytes": None if row.up_to_bytes == LAST else row.up_to_bytes,
                        "names": list(row.names),
                        "is_choice": row.is_choice,
                    }
                    for row in self.order
                ],
                "predicted": [
                    {
                        "name": each.name,
                        "size_bytes": each.size_bytes,
                        "time_us": each.time_us,
                        "lower_bound_us": each.lower_bound_us,
                        "bound_source": each.bound_source,
                    }
                    for each in self.predicted
                ],
                "torchrun": list(torchrun_commands(self.plans)),
                "notes": list(self.notes),
            },
        )

    def file_of(self, plan: DeployedPlan, output: Path | None) -> Path:
        """The plan's file that the module loads: in a folder of its own, the one next to it."""
        if output is None or is_module(output):
            return plan.path.resolve()
        return (output / plan.path.name).resolve()

    def _plan_as_dict(self, plan: DeployedPlan, output: Path | None) -> dict[str, object]:
        file = self.file_of(plan, output)
        (line,) = log_lines([plan])
        return {
            "file": str(file),
            "name": plan.name,
            "collective": plan.collective,
            "root": plan.root,
            "ranks": plan.ranks,
            "ranks_per_node": plan.ranks_per_node,
            "in_place": True in plan.in_place,
            "out_of_place": False in plan.in_place,
            "min_bytes": plan.min_bytes,
            "max_bytes": plan.max_bytes,
            "unit_bytes": plan.unit_bytes,
            "releases": list(plan.releases),
            "executor_test": test_command(plan, file),
            "log_line": line,
            "notes": list(cautions(plan)),
        }


@spelled_out(MachineKeywords)
def deploy(
    paths: Sequence[str | Path],
    *,
    ranks_per_node: int | None = None,
    root: int | None = None,
    proxy_us: float = 0.0,
    **machine: Unpack[MachineKeywords],
) -> Deployment:
    """Verify plans, and decide which calls take which.

    Parameters
    ----------
    paths : files of plans for MSCCL++.
    ranks_per_node : as PyTorch starts them; by default, those that memory channels join.
    root : of Broadcast; by default the one that fits.
    machine : topology, sketch, nodes, profile, occupancy, nic_sharing, as in `taccl.Request`: where plans
        serve the same calls, the one that is predicted faster there comes first; without a machine, the one
        given first.
    proxy_us : as in `taccl.simulate_file`.

    Raises
    ------
    FileError, PlanError : a file cannot be read, or is no plan.
    VerificationError : a plan is wrong; the findings say why.
    TacclError : two plans of one name, or one that does not fit the machine; the subclass says what.
    """
    if isinstance(paths, str | Path):
        raise TacclError(f"paths must be a list of files, not {shown(paths)}")
    plans = read_plans(paths, ranks_per_node, root)
    requested = {key: value for key, value in machine.items() if value is not None}

    def predict(plan: DeployedPlan, sizes: Sequence[int]) -> list[Predicted]:
        if plan.plan.uses_switches:  # links say nothing of what switches do
            return []
        found = simulate_file(plan.path, list(sizes), root=plan.root, proxy_us=proxy_us, **machine)
        return [
            Predicted(
                plan.name, run.size_bytes, run.time_us, run.lower_bound_us or 0.0, run.bound_source or ""
            )
            for run in found.sizes
        ]

    order, predicted = preferences(plans, predict if requested else None)
    notes = [
        f"{plan.name} sums or copies in a switch, which no prediction covers: where it serves the same calls "
        "as others, the plan given first is taken"
        for plan in plans
        if requested and plan.plan.uses_switches
    ]
    if requested and not predicted:
        notes.append("no two plans serve the same calls, so the machine decides nothing")
    if not requested and any(row.is_choice for row in order):
        notes.append(
            "where plans serve the same calls, the one given first is taken; name the machine (--topology or "
            "--sketch), and the one predicted faster is"
        )
    return Deployment(plans, order, predicted, tuple(notes))


def is_module(path: Path) -> bool:
    """Whether a name means a module, and not a folder."""
    return path.suffix == ".py" and not path.is_dir()


def module_file(output: Path) -> Path:
    """Where the module is."""
    return output if is_module(output) else output / f"{MODULE}.py"


def _module_name(path: Path) -> str:
    name = path.stem
    if not name.isidentifier() or keyword.iskeyword(name):
        raise FileError("Python imports no module of this name", path=path, hint="such as taccl_plans.py")
    return name
