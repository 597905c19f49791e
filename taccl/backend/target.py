"""A target as a value: a kind of file, what it can hold, and how a schedule becomes one.

All that the walk knows of a target is in its fields, so another one is a package that makes such a value, and
a row in `targets.TARGETS`. One from outside is handed over as a value, `synthesize(..., target=mine)`, or an
installed package names it as an entry point of the group `taccl.targets`: then the command line knows it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, get_args

from taccl.errors import CollectiveError, TacclError, VerificationError
from taccl.model.collective import Collective
from taccl.model.executor import MODEL_ERROR, Executor, RuntimeName
from taccl.model.network import LogicalTopology
from taccl.model.problem import NO_LIMIT, Feature, Problem
from taccl.model.schedule import Schedule
from taccl.model.template import Template
from taccl.support.arguments import shown

if TYPE_CHECKING:
    from taccl.backend.machine.report import Verification
    from taccl.backend.machine.unequal import Requested
    from taccl.backend.unfolded import Unfolded

#: The hint of a refusal that fewer chunks may undo, where nobody has looked yet how many would.
FEWER_CHUNKS = "fewer chunks"

ProgramT = TypeVar("ProgramT")
DocumentT = TypeVar("DocumentT")
_ReadT_contra = TypeVar("_ReadT_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """The most that a target takes, as far as it is known before there is a program; None: no limit.

    Parameters
    ----------
    max_group : chunks that travel as one send; the problem gets its `max_group` from here.
    ranks : ranks of a program.
    instances : parallel copies of a program.
    chunk_bytes : chunks are multiples of this many bytes; where their number is open, no others are tried.
    fewer_chunks_fit : whether a file that is too large fits with fewer chunks, whatever the schedule is.
    """

    max_group: int | None = None
    ranks: int | None = None
    instances: int | None = None
    chunk_bytes: int = 1
    fewer_chunks_fit: bool = False


#: Whether a thread block may have a peer to send to and one to receive from, or only one of the two.
ThreadBlocks = Literal["two-way", "one-way"]
THREAD_BLOCKS: tuple[ThreadBlocks, ...] = get_args(ThreadBlocks)


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """What a schedule does not say of its file.

    Parameters
    ----------
    protocol : how bytes are moved; one of the target's `protocols`.
    instances : parallel copies of the program, which share each chunk.
    thread_blocks : whether a thread block may both send and receive; for files that have thread blocks.
    executor : what executing costs on the machine; None: not known, as if local copies and sums took no time.
    in_place : the calls that it is for, where a file is for one way to call it; None: the usual ones.
    network : of the machine as it is, for a target that weighs one file against another; None: not known.
    nvlinks : the pairs of ranks that NVLinks join; empty: not known, or none.
    min_bytes, max_bytes : sizes of the calls that it may serve; None: around the size of the schedule.
    name : what the program is called.
    """

    protocol: str = "Simple"
    instances: int = 1
    thread_blocks: ThreadBlocks = "two-way"
    executor: Executor | None = None
    in_place: bool | None = None
    network: LogicalTopology | None = None
    nvlinks: frozenset[tuple[int, int]] = frozenset()
    min_bytes: int | None = None
    max_bytes: int | None = None
    name: str = "taccl"


@dataclass(frozen=True, slots=True)
class Lowered(Generic[ProgramT]):
    """A program, and the runtimes that it is for.

    Parameters
    ----------
    collective : what it computes in its own chunks, if those of the problem are unequal and its own are not,
        or with the sizes of unequal ones; None: that of the problem.
    size_bytes : of the call that the schedule was made for, as the program counts it; None: as the problem
        does.
    """

    program: ProgramT
    readers: tuple[str, ...]
    collective: Requested | None = None
    size_bytes: int | None = None


class Verifier(Protocol[_ReadT_contra]):
    """Whether what was read is right for these runtimes (None: for those that take it, and one must)."""

    def __call__(
        self,
        document: _ReadT_contra,
        /,
        *,
        readers: Sequence[str] | None,
        collective: Requested | None,
        root: int | None,
    ) -> Verification: ...


@dataclass(frozen=True, eq=False)
class Target(Generic[ProgramT, DocumentT]):
    """A kind of file and the runtimes that execute it.

    Parameters
    ----------
    name, title : what `--target` calls it, and a few words about it.
    format : the kind of file in one word, which is also the ending of its name: `xml`.
    runtimes : who reads it.
    limits : what is known to be too much before there is a program.
    features : of what a problem may use (`taccl.model.problem.FEATURES`), what a file can carry out; a
        problem that uses more is refused.
    reasons : for features that it lacks, why: half a sentence.
    protocols : the words for how bytes are moved, the usual one first.
    one_way_to_call : whether a file is for calls in place or for others, never both; users may say which.
    readers_of : the runtimes of each file that a collective of this name takes. Raises `CollectiveError` if
        none knows it.
    refuse : raises a `TacclError` for a problem that it has no file for, whatever the schedule is.
    lower : the programs that carry out a schedule that passed `Schedule.check()`, each for the runtimes that
        it names. Raises `ProgramLimitError` if one is too large.
    write : the text of a program.
    read : what a text (or its bytes) says, as far as `verify` wants to know; with the name of the file, for
        messages. Raises a `TacclError` if it is another kind of file.
    verify : whether what was read is right; it owes nothing to `lower`.
    variants : programs that users are reported they can turn a file into; they are verified with it.
    use : how to run a file, as lines for people, given its program, its runtimes, and where it is (None:
        in no file).
    environment : the lines of a shell script that make one of the runtimes take several files, given their
        programs by the names of the files, which lie in the folder that its variable HERE names. None: files
        are not found by variables.
    most_files : of runtimes that take no more than a few files at once, how many; they ignore others.
    takes : whether runtimes take the file of a program for a call of this many bytes, as the program counts
        them; None: all that its range has.
    serves : the calls for which a runtime that finds files so takes the file of a program: True for those in
        place, False for those out of place.
    leaves_out_largest : runtimes that do not take calls of the largest size that a file names.
    of_ranks : the text of these ranks of a template (None: of all) piece by piece, so that it is never there
        as a whole; None: its files are too small for what has a template.
    knows : whether bytes are a file of this kind, whatever its name; None: if its name has the ending.
    parse : the program that a file spells, to be shown, simulated or run; with the name of the file, for
        messages. The third argument is called now and then while the file is read, and raises when there is
        no time left. Raises a `TacclError` if there is anything that it cannot understand.
    unfold : what a program unfolds into (`taccl.backend.unfolded`). None, as `parse`: its files are not
        executed here.
    unfold_document : the same of what `read` gives, where verification refuses more in a file than its
        program shows.
    wire : by protocols, how many bytes each byte of data takes on the wire in a file that moves nothing else.
    predicted_by_links : whether files have a predicted time also on a machine without an executor.
    is_one_sided : whether blocks write into memory of their peers: who sends goes on at once, so that alpha
        is only waited for, and what is received costs no thread block anything.
    executed_by : whose costs of executing hold for its files, where a machine has defaults; None: nobody's.
    prediction_error : predicted times within this fraction of each other are ties.
    """

    name: str
    title: str
    format: str
    runtimes: tuple[str, ...]
    limits: TargetLimits
    lower: Callable[[Schedule, LoweringOptions], Sequence[Lowered[ProgramT]]] = field(repr=False)
    write: Callable[[ProgramT], str] = field(repr=False)
    read: Callable[[str | bytes, str | None], DocumentT] = field(repr=False)
    verify: Verifier[DocumentT] = field(repr=False)
    features: frozenset[Feature] = frozenset()
    reasons: Mapping[Feature, str] = field(default_factory=dict, repr=False)
    protocols: tuple[str, ...] = ("Simple",)
    one_way_to_call: bool = False
    readers_of: Callable[[str], Sequence[tuple[str, ...]]] | None = field(default=None, repr=False)
    refuse: Callable[[Problem, LoweringOptions], None] | None = field(default=None, repr=False)
    variants: Callable[[ProgramT, tuple[str, ...]], Sequence[ProgramT]] | None = field(
        default=None, repr=False
    )
    use: Callable[[ProgramT, tuple[str, ...], Path | None], Sequence[str]] | None = field(
        default=None, repr=False
    )
    leaves_out_largest: frozenset[str] = frozenset()
    environment: Callable[[str, Mapping[str, ProgramT]], Sequence[str]] | None = field(
        default=None, repr=False
    )
    most_files: Mapping[str, int] = field(default_factory=dict, repr=False)
    takes: Callable[[ProgramT, int], bool] | None = field(default=None, repr=False)
    serves: Callable[[ProgramT, str], Sequence[bool]] | None = field(default=None, repr=False)
    of_ranks: Callable[[Template, LoweringOptions, range | None], Iterator[str]] | None = field(
        default=None, repr=False
    )
    knows: Callable[[bytes], bool] | None = field(default=None, repr=False)
    parse: Callable[[bytes, str | None, Callable[[], None]], ProgramT] | None = field(
        default=None, repr=False
    )
    unfold: Callable[[ProgramT], Unfolded] | None = field(default=None, repr=False)
    unfold_document: Callable[[DocumentT], Unfolded] | None = field(default=None, repr=False)
    wire: Mapping[str, float] = field(default_factory=dict, repr=False)
    predicted_by_links: bool = False
    is_one_sided: bool = False
    executed_by: RuntimeName | None = None
    prediction_error: float = MODEL_ERROR

    @property
    def can_be_executed(self) -> bool:
        """Whether its files are programs that this package executes and predicts."""
        return self.parse is not None and self.unfold is not None

    @property
    def max_group(self) -> int:
        """What `Problem.max_group` is for this target."""
        return NO_LIMIT if self.limits.max_group is None else self.limits.max_group

    def files_for(self, collective: str) -> tuple[tuple[str, ...], ...]:
        """The runtimes of each file that a collective of this name takes.

        Raises
        ------
        CollectiveError : none of the runtimes knows it.
        """
        return (self.runtimes,) if self.readers_of is None else tuple(self.readers_of(collective))

    def protocol(self, name: str | None) -> str:
        """A protocol, in the target's spelling; None: the usual one.

        Raises
        ------
        TacclError : it has none of that name.
        """
        if name is None:
            return self.protocols[0]
        for protocol in self.protocols:
            if isinstance(name, str) and name.lower() == protocol.lower():
                return protocol
        known = ", ".join(self.protocols)
        raise TacclError(f"the target {self.name} has no protocol {shown(name)}", hint=f"one of {known}")

    def check_problem(
        self, problem: Problem, options: LoweringOptions, others: OtherTargets | None = None
    ) -> None:
        """Refuse, before any search, what no file of this target can carry out.

        Parameters
        ----------
        others : gives the targets of which a refusal names those that take the problem; None: it names none.

        Raises
        ------
        TacclError : with the reason.
        """
        most = self.limits.ranks
        is_too_many = most is not None and problem.num_ranks > most
        hint = _elsewhere(problem, others) if is_too_many or problem.features - self.features else None
        without = "--without NAME leaves a helper out (--without nvswitch), "
        helps = without * bool(problem.topology.num_helpers) + (hint or "")
        refuse_features(f"the target {self.name!r}", problem, self.features, self.reasons, helps)
        self.files_for(problem.collective.name)
        if is_too_many:
            raise CollectiveError(
                f"{problem.num_ranks} ranks; a file for the target {self.name!r} holds {most}", hint=hint
            )
        if self.refuse is not None:
            self.refuse(problem, options)

    @property
    def described(self) -> str:
        """What messages call it: its name is a word such as `all`, which reads as one of the sentence."""
        return f"the target {self.name!r} ({self.title})"

    def takes_problem(self, problem: Problem) -> bool:
        """Whether nothing is known that keeps a problem from having a file."""
        try:
            self.check_problem(problem, LoweringOptions(protocol=self.protocols[0]))
        except TacclError:
            return False
        return True

    def verified_text(self, lowered: Lowered[ProgramT], collective: Collective) -> str:
        """The text of a program, read again as its runtimes would and verified for all of them.

        Raises
        ------
        VerificationError : it is wrong.
        """
        text = self.write(lowered.program)
        variants = () if self.variants is None else self.variants(lowered.program, lowered.readers)
        for each in (text, *map(self.write, variants)):
            document = self.read(each, None)
            wanted: Requested = collective if lowered.collective is None else lowered.collective
            report = self.verify(document, readers=lowered.readers, collective=wanted, root=None)
            if not report.ok:
                kind = self.format.upper()
                raise VerificationError(
                    f"the {kind} made for this schedule fails verification, so nothing is written",
                    findings=[str(error) for error in report.errors],
                    hint="please report this with your command; --no-file keeps the schedule",
                )
        return text


def _elsewhere(problem: Problem, others: OtherTargets | None) -> str:
    """What to do where a target does not take a problem: the targets that do, or no file."""
    if others is None:
        named = ["another --target"]
    else:
        named = [f"--target {each.name}" for each in others() if each.takes_problem(problem)]
    return ", or ".join([*named, "--no-file for the schedule alone"])


def refuse_features(
    name: str,
    problem: Problem,
    features: frozenset[Feature],
    reasons: Mapping[Feature, str],
    hint: str | None = None,
) -> None:
    """Refuse a problem that uses more than the files for `name` can carry out.

    Raises
    ------
    CollectiveError : with the reason.
    """
    for feature in sorted(problem.features - features):
        reason = reasons.get(feature, "the format has no word for them")
        raise CollectiveError(
            f"a file for {name} knows no {feature.replace('_', ' ')}: {reason}",
            hint=hint,
        )


#: A target whatever its programs are.
AnyTarget = Target[Any, Any]
#: Looked up only where a problem is refused: those of other packages are loaded then.
OtherTargets = Callable[[], Sequence[AnyTarget]]
