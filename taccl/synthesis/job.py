"""The first step of the walk: a request becomes a job, which has a problem under each configuration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from taccl.backend.target import AnyTarget
from taccl.backend.targets.registry import find_target
from taccl.encoding.symmetry.search import lost_by_costs
from taccl.model.engine_costs import Served
from taccl.model.problem import Problem
from taccl.sketch import SketchedNetwork
from taccl.synthesis.autotune.tuning import PREDICTIONS_MOST_OUTPUTS, PREDICTIONS_MOST_RANKS
from taccl.synthesis.configurations import Configuration, configurations_to_try, has_predictions
from taccl.synthesis.formulated import Formulated, network_of, problem_of
from taccl.synthesis.inputs import Inputs, inputs_of
from taccl.synthesis.lowering import Lowering
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import Request
from taccl.topologies.reach import nvlinked_pairs


@dataclass(frozen=True, eq=False)
class Job:
    """A request with its machine, its target and all configurations that its file may have.

    Parameters
    ----------
    request : with its target and its size looked up.
    inputs, network : the machine, the sketch and the collective, and what the sketch makes of the machine.
    configurations : the first is the one that the target usually has.
    lowering : what the target makes of schedules.
    has_predictions : whether the predicted times of files choose, and not those of schedules.
    """

    request: Request
    output: OutputOptions
    target: AnyTarget
    inputs: Inputs
    network: SketchedNetwork
    configurations: tuple[Configuration, ...]
    lowering: Lowering
    has_predictions: bool = False
    #: For each way of serving links, the note on symmetries that unequal costs break. It is the same for all
    #: numbers of chunks, so it is found out once: for nine numbers on dragonfly:8x4x2 it took 1.1 s.
    _lost: dict[Served | None, str | None] = field(default_factory=dict, repr=False)

    @property
    def lowers_while_searching(self) -> bool:
        """Whether a number of chunks is of use only if its schedule has a file.

        Elsewhere no file is requested, or predictions find out: they lower the small ones first.
        """
        return self.output.file and not self.has_predictions

    @property
    def chunk_bytes(self) -> int:
        """Chunks are multiples of this, where their number is open."""
        return self.target.limits.chunk_bytes if self.output.file else 1

    def with_chunks(self, chunks: int) -> Job:
        """The same with this number of chunks in each part. Raises what `inputs_of` raises."""
        return replace(self, request=replace(self.request, chunks=chunks), inputs=self.cut(chunks))

    def cut(self, chunks: int) -> Inputs:
        """The inputs with this number of chunks in each part."""
        return inputs_of(
            Request(
                collective=self.request.collective,
                topology=self.inputs.topology,
                sketch=self.inputs.sketch,
                size=None if self.inputs.demand.chunk_bytes is not None else self.request.size,
                chunks=chunks,
                root=self.request.root,
                executor=self.request.executor,
                sizes=self.request.sizes,
                windows=self.request.windows,
                target=self.request.target,
            )
        )

    def problem(self, configuration: Configuration, inputs: Inputs | None = None) -> Formulated:
        """The problem under the costs of a configuration; `inputs` : those of another number of chunks."""
        inputs = self.inputs if inputs is None else inputs
        served = configuration.served(self.target)

        def lost(problem: Problem) -> str | None:
            if served not in self._lost:
                self._lost[served] = lost_by_costs(problem)
            return self._lost[served]

        return problem_of(inputs, self.request.symmetry, self.network, served, lost)


def formulate(request: Request, output: OutputOptions) -> Job:
    """Look up all that a request names, and refuse it now, not after a search, where it can have no file.

    Raises
    ------
    TacclError : the request is wrong, or its target has no file for any schedule of it.
    """
    target = find_target(request.target)
    inputs = inputs_of(replace(request, chunks=request.first_chunks))
    executor, outputs = inputs.topology.executor, len(inputs.collective.outputs)
    if request.executor is not None or executor is None:
        return _stated(request, output, target, inputs)
    for many, most, what in (
        (outputs, PREDICTIONS_MOST_OUTPUTS, "outputs"),
        (inputs.collective.num_ranks, PREDICTIONS_MOST_RANKS, "ranks"),
    ):
        if many > most:
            why = f"with {many} {what}, more than {most}, no file is predicted"
            return _by_links(request, output, target, inputs, f"{why} unless --executor asks for it")
    job = _stated(request, output, target, inputs)
    if job.has_predictions or executor.origin is None:
        return job
    return _by_links(request, output, target, inputs, f"no file for {target.name} can be predicted here")


def _by_links(request: Request, output: OutputOptions, target: AnyTarget, inputs: Inputs, why: str) -> Job:
    """The job where links alone count, with the reason."""
    topology = replace(inputs.topology, executor=None)
    inputs = replace(inputs, topology=topology, notes=(*inputs.notes, f"links alone: {why}"))
    return _stated(replace(request, executor=False), output, target, inputs)


def _stated(request: Request, output: OutputOptions, target: AnyTarget, inputs: Inputs) -> Job:
    """The job with its configurations, and whether its files are predicted."""
    network = network_of(inputs)
    nvlinks = nvlinked_pairs(inputs.topology) if inputs.topology.num_nodes == 1 else frozenset()
    name = f"taccl-{inputs.collective.name}-{inputs.topology.name}"
    lowering = output.for_target(target, name, network.topology.executor)
    job = Job(
        request=replace(request, target=target, size=inputs.size_bytes),
        output=output,
        target=target,
        inputs=inputs,
        network=network,
        configurations=configurations_to_try(network.topology.executor, target, output),
        lowering=Lowering(target, replace(lowering, network=network.topology, nvlinks=nvlinks)),
    )
    problem = job.problem(job.configurations[0]).problem
    if output.file:
        job.lowering.check(problem)
    predicts = has_predictions(network.topology.executor, target, output) and job.lowering.allows(problem)
    return replace(job, has_predictions=predicts)
