"""CP-SAT requested by a test: always with a limit of work, so that no random model stalls the suite."""

from ortools.sat.python import cp_model

#: CP-SAT's own deterministic seconds: a few seconds. One random model in hundreds would take minutes.
_MOST_WORK = 10.0


def solved(model: cp_model.CpModel, **parameters: object) -> tuple[cp_model.CpSolver, int]:
    """The solver and its status; `parameters` are CP-SAT's."""
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = _MOST_WORK
    for name, value in parameters.items():
        setattr(solver.parameters, name, value)
    return solver, solver.solve(model)
