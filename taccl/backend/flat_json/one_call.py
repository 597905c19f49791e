"""One call of a file of actions that passed verification, for who makes something else of it."""

from __future__ import annotations

import numpy as np

from taccl.backend.flat_json.cells import Cells, cells_of
from taccl.backend.flat_json.reader import ActionsDocument
from taccl.backend.flat_json.unfold import unfold
from taccl.backend.flat_json.verify import expected, verify_actions
from taccl.backend.machine.one_call import OneCall
from taccl.backend.machine.run import run_acts
from taccl.errors import VerificationError
from taccl.model.collective import Collective


def call_of_actions(document: ActionsDocument, collective: Collective | None, root: int | None) -> OneCall:
    """What the actions do in a call, cut where they cut it.

    Raises
    ------
    VerificationError : the file is not right, or its actions cut buffers into unequal pieces.
    """
    verify_actions(document, collective=collective, root=root).raise_for_findings()
    program = document.program
    cells = cells_of(program)
    if cells is None or not _is_even(cells):
        raise VerificationError(
            "its chunks, or what its actions take of them, are of unequal sizes",
            path=document.path,
            hint="only files of equal chunks become something else",
        )
    machine = unfold(program, cells)
    return OneCall(machine, run_acts(machine.acts).sequence[0], expected(program, cells))


def _is_even(cells: Cells) -> bool:
    """Whether all cells have as many elements."""
    lengths = [np.diff(starts) for of_rank in cells.starts for starts in of_rank]
    return len(np.unique(np.concatenate(lengths))) <= 1
