"""A flat JSON of per-rank actions: send, receive, copy, reduce, with what each waits for."""

from taccl.backend.flat_json.document import Action, ActionRank, ActionsProgram, Span
from taccl.backend.flat_json.reader import ActionsDocument, parse_actions_document, read_actions
from taccl.backend.flat_json.writer import actions_to_json

__all__ = [
    "Action",
    "ActionRank",
    "ActionsDocument",
    "ActionsProgram",
    "Span",
    "actions_to_json",
    "parse_actions_document",
    "read_actions",
]
