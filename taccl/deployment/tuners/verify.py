"""Whether a tuner file means what it says: plugins read words that they do not know as other ones.

NCCL's example plugin was seen to read `alltoall` as allreduce, an unknown algorithm as ring and an unknown
protocol as simple, without a word. NCCLX starts no communicator instead. Nothing here knows the writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from taccl.backend.machine.report import Collector, Facts, Location, Severity, Verification
from taccl.deployment.tuners.found import (
    ANY,
    ENDLESS,
    FoundLine,
    Interval,
    interval_of,
    is_of_ncclx,
    lines_of,
    number_of,
)

_ALGORITHMS = {
    "allreduce": ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree"),
    "allgather": ("ring", "collnet_direct", "nvls", "pat"),
    "reducescatter": ("ring", "collnet_direct", "nvls", "pat"),
    "broadcast": ("ring",),
    "reduce": ("ring",),
}
_ALL = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
_SIMPLE_ALONE = ("collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
_PROTOCOLS = ("ll", "ll128", "simple")
#: The plugin reads this many characters of a line, and the rest as another line.
_LONGEST_LINE = 255
#: What a file means by "all sizes" that has been copied from the plugin's readme.
_FOUR_GB = 2**32 - 1
_COLUMNS = {False: range(8, 11), True: range(7, 11)}


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule of a file: when it matches."""

    line: int
    collective: str
    sizes: Interval
    others: tuple[Interval, ...] = field(default=())

    def covers(self, other: _Rule) -> bool:
        """Whether it matches wherever another one does, sizes apart."""
        return self.collective == other.collective and all(
            mine.first <= its.first and its.last <= mine.last
            for mine, its in zip(self.others, other.others, strict=True)
        )


def verify_tuner_file(text: str, path: str | None = None, *, ranks: int | None = None) -> Verification:
    """Each line, and all rules together.

    Parameters
    ----------
    ranks : of the communicator that it is for; None: any.
    """
    collector, lines = Collector(), lines_of(text)
    is_ncclx = is_of_ncclx(lines)
    rules = []
    for line in lines:
        rule = _read(line, is_ncclx, ranks, collector)
        if rule is not None:
            rules.append(rule)
    _check_sizes(rules, collector)
    if not lines:
        collector.structure("no-rule", "it has no rule", "a line for each collective and range of sizes")
    findings = collector.findings()
    right = not any(finding.severity == "error" for finding in findings)
    known = [rule.others[-1].first for rule in rules if not rule.others[-1].is_any]
    facts = Facts(
        collective=", ".join(dict.fromkeys(rule.collective for rule in rules)),
        num_ranks=max(known, default=0),
        num_steps=0,
        num_thread_blocks=0,
        protocol="any",
        readers=dict.fromkeys(("ncclx",) if is_ncclx else ("nccl", "rccl"), "yes" if right else "no"),
        rules=len(rules),
    )
    return Verification(findings, facts, path)


def _read(line: FoundLine, is_ncclx: bool, ranks: int | None, collector: Collector) -> _Rule | None:
    """A rule, unless it cannot be understood at all."""
    where = Location(line=line.number)

    def add(rule: str, message: str, hint: str, severity: Severity = "error") -> None:
        collector.structure(rule, message, hint, where, severity=severity)

    if line.length > _LONGEST_LINE and not is_ncclx:
        add(
            "long-line",
            f"it has {line.length} characters, and the plugin reads {_LONGEST_LINE}",
            "shorten it",
        )
    if line.cells[0] in ("collective", "colltype"):
        add("header", "a header is read as a rule", "put # before it", "warning")
        return None
    allowed = _COLUMNS[is_ncclx]
    if len(line.cells) not in allowed:
        hint = f"{allowed[0]} to {allowed[-1]} columns"
        add("columns", f"it has {len(line.cells)} columns", hint)
        return None
    collective = line.cells[0]
    words = line.cells[2:5] if is_ncclx else line.cells[3:6]
    for rule, message, hint in _words(collective, *words, is_ncclx=is_ncclx):
        add(rule, message, hint)
    sizes = interval_of(line.cells[1]) if is_ncclx else _sizes(line.cells[1], line.cells[2])
    if sizes is None:
        found = line.cells[1] if is_ncclx else f"{line.cells[1]} to {line.cells[2]}"
        hint = "[0,1048576), or * for any" if is_ncclx else "two whole numbers, the smaller one first"
        add("sizes", f"{found[:40]!r} is no range of sizes", hint)
        return None
    counts = [_count(cell, is_ncclx) for cell in line.cells[5 if is_ncclx else 6 :][:2]]
    extra = line.cells[7 if is_ncclx else 8 :]
    for cell in extra:
        if number_of(cell) is None:
            add("number", f"{cell[:40]!r} is no number", "-1 for any")
    if None in counts:
        add("number", "its nodes or ranks are no numbers", "* for any" if is_ncclx else "-1 for any")
        return None
    nodes, gpus = (each for each in counts if each is not None)
    for message in _wrong_counts(nodes, gpus, ranks, is_ncclx):
        add("ranks", message, "the ranks of the job")
    return _Rule(line.number, collective, sizes, (nodes, gpus))


def _words(
    collective: str, algorithm: str, protocol: str, channels: str, *, is_ncclx: bool
) -> Iterator[tuple[str, str, str]]:
    """What a plugin would read as something else."""
    stops = "NCCLX starts no communicator with it" if is_ncclx else None
    if collective not in _ALGORITHMS:
        what = stops or "the plugin reads it as allreduce"
        yield "collective", f"there is no collective {collective[:40]!r}: {what}", ", ".join(_ALGORITHMS)
    if algorithm not in _ALL:
        what = stops or "the plugin reads it as ring"
        yield "algorithm", f"there is no algorithm {algorithm[:40]!r}: {what}", ", ".join(_ALL)
    elif algorithm not in _ALGORITHMS.get(collective, _ALL):
        hint = ", ".join(_ALGORITHMS[collective])
        yield "algorithm", f"{algorithm} runs no {collective}: the rule does nothing", hint
    if protocol not in _PROTOCOLS:
        what = stops or "the plugin reads it as simple"
        yield "protocol", f"there is no protocol {protocol[:40]!r}: {what}", ", ".join(_PROTOCOLS)
    elif algorithm in _SIMPLE_ALONE and protocol != "simple":
        yield "protocol", f"{algorithm} runs with simple alone: the rule does nothing", "simple"
    many = number_of(channels)
    if many is None or many == 0 or many < -1:
        yield "channels", f"{channels[:40]!r} is no number of channels", "-1 leaves it to the library"


def _sizes(least: str, most: str) -> Interval | None:
    first, last = number_of(least), number_of(most)
    if first is None or last is None or not 0 <= first <= last:
        return None
    return Interval(first, ENDLESS if last >= 2**62 else last)


def _count(cell: str, is_ncclx: bool) -> Interval | None:
    if is_ncclx:
        return interval_of(cell)
    count = number_of(cell)
    if count is None or count == 0 or count < -1:
        return None
    return ANY if count == -1 else Interval(count, count)


def _wrong_counts(nodes: Interval, gpus: Interval, ranks: int | None, is_ncclx: bool) -> Iterator[str]:
    """`gpus` : of all nodes, of NCCLX of one."""
    if is_ncclx:
        if ranks is not None and not nodes.is_any and nodes.first == nodes.last:
            of_node, rest = divmod(ranks, max(1, nodes.first))
            if rest or not gpus.first <= of_node <= gpus.last:
                yield f"it matches no communicator of {ranks} ranks"
        return
    if not nodes.is_any and not gpus.is_any and (gpus.first < nodes.first or gpus.first % nodes.first):
        yield f"{gpus.first} ranks cannot be on {nodes.first} nodes, as many on each"
    if ranks is not None and not gpus.first <= ranks <= gpus.last:
        yield f"it matches no communicator of {ranks} ranks"


def _check_sizes(rules: list[_Rule], collector: Collector) -> None:
    """Sizes that no rule has, and rules that never match because earlier ones do."""
    for place, rule in enumerate(rules):
        before = [each for each in rules[:place] if each.covers(rule)]
        if _uncovered(rule.sizes, before) is None:
            message = f"the rules before it match all that it does for {rule.collective}; the first one wins"
            collector.structure("never", message, "remove it, or move it up", Location(line=rule.line))
    for rule in rules:
        equivalent = [each for each in rules if each.covers(rule) and rule.covers(each)]
        if rule is not equivalent[-1]:
            continue
        hole = _uncovered(ANY, equivalent)
        if hole == _FOUR_GB + 1:
            message = f"for {rule.collective} no rule has calls of more than {_FOUR_GB} bytes"
            hint = "a larger max_bytes: sizes have 64 bits"
            collector.structure("four-gb", message, hint, Location(line=rule.line))
        elif hole is not None:
            message = (
                f"for {rule.collective} no rule has calls of {hole} bytes; the library's own choice holds"
            )
            hint = "ranges that follow each other"
            collector.structure("hole", message, hint, Location(line=rule.line), severity="warning")


def _uncovered(sizes: Interval, rules: list[_Rule]) -> int | None:
    """The first size that no rule has; None: they have all."""
    reached = sizes.first
    for rule in sorted(rules, key=lambda each: each.sizes.first):
        if rule.sizes.first > reached:
            break
        reached = max(reached, rule.sizes.last + 1)
    return None if reached > min(sizes.last, ENDLESS - 1) else reached
