"""`ActionsProgram` to the text of its file: one line for each action."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from taccl.backend.flat_json.document import (
    FORMAT,
    FORMAT_OF_PART,
    VERSION,
    WORD_OF,
    Action,
    ActionRank,
    ActionsProgram,
)


def actions_to_json(program: ActionsProgram) -> str:
    """The text; `parse_actions_document` reads it back."""
    return "".join(lines_of_actions(program, program.ranks))


def lines_of_actions(
    program: ActionsProgram, ranks: Iterable[ActionRank], only: tuple[int, int] | None = None
) -> Iterator[str]:
    """The same piece by piece, with these ranks in place of the program's.

    Parameters
    ----------
    only : where they are not all, the first of them and how many there are: the text is a part then.
    """
    part = {} if only is None else {"first_rank": only[0], "num_ranks": only[1]}
    header = {
        "format": FORMAT if only is None else FORMAT_OF_PART,
        "version": VERSION,
        **part,
        "name": program.name,
        "collective": program.collective,
        "root": program.root,
        "chunks": len(program.sums),
        "chunk_elements": _once(program.chunk_elements),
        "sums": _once(program.sums),
        "call_elements": program.call_elements,
        "element_bytes": program.element_bytes,
        "min_bytes": program.min_bytes,
        "max_bytes": program.max_bytes,
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in header.items()]
    yield "\n".join(["{", *lines, ' "ranks": [', ""])
    for number, rank in enumerate(ranks):
        buffers = {"input": rank.input, "output": rank.output, "scratch": rank.scratch}
        begin = ", ".join(f'"{name}": {json.dumps(holds)}' for name, holds in buffers.items())
        actions = ",\n".join(f"   {json.dumps(_values(action))}" for action in rank.actions)
        yield (",\n" if number else "") + f'  {{{begin}, "actions": [\n{actions}\n  ]}}'
    yield "\n ]\n}\n"


def _once(values: Sequence[int]) -> object:
    """All values, or the one that they all are."""
    return values[0] if len(set(values)) == 1 else list(values)


def _values(action: Action) -> dict[str, object]:
    values: dict[str, object] = {"do": action.do.value}
    if action.do.travels:
        values |= {"peer": action.peer, "message": action.message}
    for key, span in (("from", action.source), ("to", action.target)):
        if span is not None:
            values[key] = [WORD_OF[span.buffer], span.offset]
    return values | {"elements": action.elements, "after": list(action.after)}
