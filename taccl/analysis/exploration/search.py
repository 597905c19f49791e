"""One search for one size, and what it is known by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from taccl.analysis.exploration.answer import Answer
from taccl.analysis.exploration.cache import key_of
from taccl.analysis.exploration.question import Question
from taccl.api import synthesize_request
from taccl.encoding.core.options import SearchOptions
from taccl.errors import NoScheduleInTime, TacclError
from taccl.synthesis.output_options import OutputOptions
from taccl.synthesis.request import Request
from taccl.synthesis.search import Observer
from taccl.synthesis.searcher import Alone


@dataclass(frozen=True, eq=False)
class SizeSearch:
    """What is searched for.

    Parameters
    ----------
    request : with a size.
    key : what the answer is kept by.
    """

    request: Request
    options: SearchOptions
    output: OutputOptions
    key: str


@dataclass(frozen=True)
class Outcome:
    """What a search came to: an answer as text, or why there is none."""

    text: str | None
    is_final: bool = True
    failure: str = ""

    def made_sane(self) -> Outcome:
        """The same with values of their types, whatever was put in their place elsewhere."""
        text = self.text if isinstance(self.text, str) else None
        return Outcome(text, self.is_final is True, " ".join(str(self.failure).split()))


class Searchers(Protocol):
    """Who searches, and how many searches there are at once."""

    #: Whether answers are of this computer. Of others, nothing is believed that is not checked here.
    are_here: bool

    @property
    def jobs(self) -> int:
        """How many searches run at once."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of them, by now."""
        ...

    def outcomes(self, searches: Sequence[SizeSearch]) -> Iterator[tuple[int, Outcome]]:
        """What each comes to, with its number among them, as soon as it is there, in any order."""
        ...


def search_of(
    question: Question,
    way: int,
    size_bytes: int,
    options: SearchOptions,
) -> SizeSearch:
    """The search for one size of a question. It can be sent: it names no file of this computer."""
    job = question.jobs[way]
    request = replace(
        question.requests[way],
        topology=job.inputs.topology,
        nodes=None,
        without=None,
        sketch=job.inputs.sketch,
        size=size_bytes,
        target=job.target.name,
    )
    content = {
        "machine": repr(job.inputs.topology),
        "sketch": repr(job.inputs.sketch),
        "collective": question.collective,
        "request": [repr(request.root), repr(request.symmetry), repr(request.chunks), size_bytes],
        "target": job.target.name,
        "options": asdict(options),
        "output": asdict(job.output),
    }
    return SizeSearch(request, options, job.output, key_of(content))


def carried_out(search: SizeSearch, on_progress: Observer | None = None) -> Outcome:
    """Search; what one search may fail with is reported, and no reason to end an exploration."""
    try:
        result = synthesize_request(search.request, search.options, search.output, Alone(), on_progress)
    except NoScheduleInTime as fault:
        return Outcome(None, failure=fault.message)
    except TacclError as fault:
        return Outcome(None, failure=str(fault))
    answer = Answer.of(result)
    return Outcome(answer.to_text(), answer.is_final)
