"""One call of a program that passed verification, for who makes something else of it."""

from __future__ import annotations

from taccl.backend.machine.acts import Machine
from taccl.backend.machine.one_call import OneCall
from taccl.backend.machine.report import Collector
from taccl.backend.machine.run import run_acts
from taccl.backend.program import Program
from taccl.backend.verify.msccl_xml.columns import Columns
from taccl.backend.verify.msccl_xml.connections import connect
from taccl.backend.verify.msccl_xml.executed_steps import ExecutedSteps
from taccl.backend.verify.msccl_xml.expected import expect_collective, expect_standard
from taccl.backend.verify.msccl_xml.unfold import StepNames, layout_of, unfold_acts, unfold_moves
from taccl.backend.verify.msccl_xml.verifier import verify_program
from taccl.errors import VerificationError
from taccl.model.collective import Collective


def call_of_program(program: Program, collective: Collective | None, root: int | None) -> OneCall:
    """What a program does in a call: out of place, unless it is for calls in place alone.

    It need not end with connections that hold few pieces: what is made of it has none.

    Raises
    ------
    VerificationError : it is not right, or nobody knows what it should compute.
    """
    report = verify_program(program, targets=None, collective=collective, root=root)
    wrong = [str(error) for error in report.errors if error.rule != "deadlock"]
    if wrong:
        raise VerificationError("the program fails verification", findings=wrong)
    root = report.facts.root if root is None else root
    silent = Collector()
    executed = ExecutedSteps.of(Columns.of(program))
    expectation = (
        expect_standard(program, root, silent)
        if collective is None
        else expect_collective(program, collective, silent)
    )
    if expectation is None:
        raise VerificationError(
            f"coll is {program.collective!r}, which does not say what the outputs must hold",
            hint="give the collective (--collective FILE)",
        )
    connections = connect(executed, silent)
    acts = unfold_acts(executed, connections)
    layout = layout_of(executed.columns, expectation, "out of place" if program.out_of_place else "in place")
    moves = unfold_moves(executed, connections, acts, layout)
    machine = Machine(acts, moves, layout, StepNames(executed, connections, acts))
    run = run_acts(acts)
    if not run.ends:
        raise VerificationError("the program hangs", hint="taccl verify tells where")
    return OneCall(machine, run.sequence[0], expectation)
