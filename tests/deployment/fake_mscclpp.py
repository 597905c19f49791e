"""MSCCL++ as far as a module that `taccl deploy` writes sees it, with what its own selection does wrong."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from json import loads
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

#: What it does without plans.
NATIVE = "its own kernels"


class DataType(Enum):
    """As the Python package names them."""

    float16 = 0
    float32 = 1
    int32 = 2
    float8_e4m3 = 3


@dataclass(frozen=True)
class ExecutionPlan:
    """The runtime reads the file of a plan for one rank."""

    path: str
    rank: int

    @property
    def values(self) -> dict[str, Any]:
        plan: dict[str, Any] = loads(Path(self.path).read_text())
        assert self.rank < len(plan["gpus"]), "the real loader would crash"
        return plan


@dataclass(frozen=True)
class Algorithm:
    """What is registered."""

    id: str
    execution_plan: ExecutionPlan
    constraint: Any

    @property
    def _algorithm(self) -> "Algorithm":
        """What a selector hands over: the library's own object, which has no Python class around it."""
        return self

    @dataclass(frozen=True)
    class Constraint:
        """Whom it is for."""

        world_size: int = 0
        n_ranks_per_node: int = 0


@dataclass(frozen=True)
class Request:
    """A call of one rank, as NCCL's interface hands it on."""

    collective: str
    message_size: int
    world_size: int
    n_ranks_per_node: int
    rank: int = 0
    input_buffer: int = 0x10000
    output_buffer: int = 0x10000
    dtype: DataType = DataType.float16
    hints: Mapping[str, list[int]] = field(default_factory=dict)


class Runtime:
    """A process with the library preloaded."""

    def __init__(self) -> None:
        self.algorithms: dict[str, dict[str, Algorithm]] = {}
        self.selector: Callable[[Any, Request], Algorithm | None] = lambda algorithms, request: None

    def add_algorithm_builder(self, algorithm: Algorithm) -> None:
        plan = algorithm.execution_plan.values
        self.algorithms.setdefault(plan["collective"], {})[plan["name"]] = algorithm

    def set_algorithm_selector(self, selector: Callable[[Any, Request], Algorithm | None]) -> None:
        self.selector = selector

    def call(self, request: Request) -> str:
        """The name of the plan that a call takes, or what it does without one."""
        chosen = self.selector(self.algorithms, request) or self._own_choice(request)
        if chosen is None:
            return NATIVE
        assert chosen.execution_plan.rank == request.rank, "it would do another rank's part"
        return str(chosen.execution_plan.values["name"])

    def _own_choice(self, request: Request) -> Algorithm | None:
        """The first whose constraint is equal and whose window has the size; whole chunks do not matter."""
        for algorithm in self.algorithms.get(request.collective, {}).values():
            plan = algorithm.execution_plan.values
            size = request.message_size
            if request.collective == "allgather":
                size *= request.world_size
            window = range(plan.get("min_message_size", 0), plan.get("max_message_size", 2**64 - 1) + 1)
            wanted = Algorithm.Constraint(request.world_size, request.n_ranks_per_node)
            if algorithm.constraint == wanted and size in window:
                return algorithm
        return None


@contextmanager
def preloaded() -> Iterator[Runtime]:
    """While it lasts, `import mscclpp` finds this."""
    runtime, package, ext = Runtime(), ModuleType("mscclpp"), ModuleType("mscclpp.ext")
    vars(ext)["AlgorithmCollectionBuilder"] = lambda: runtime
    vars(package).update(ext=ext, Algorithm=Algorithm, ExecutionPlan=ExecutionPlan)
    with patch.dict("sys.modules", {"mscclpp": package, "mscclpp.ext": ext}):
        yield runtime
