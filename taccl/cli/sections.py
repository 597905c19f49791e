"""How `--help` reads: commands in groups, options in sections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import click

#: The options of each section, by the names of their parameters. Options of no section stand in the last one.
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "What": (
        *(
            "collective",
            "topology",
            "sketch",
            "size",
            "sizes",
            "requests",
            "windows",
            "root",
            "nodes",
            "profile",
            "occupancy",
        ),
        *(
            "nic_sharing",
            "without",
            "helpers",
            "executor",
            "chunks",
            "symmetry",
            "target_time",
            "gpu",
            "cpu",
            "nic_latency_us",
            "release",
        ),
    ),
    "Search": (
        *("engine", "solver", "time_limit", "effort", "gap", "slack", "seed", "scheduler", "template"),
        *("jobs", "no_cache", "explain_stages"),
    ),
    "File": (
        *("target", "protocol", "instances", "thread_blocks", "in_place", "min_size", "max_size"),
        *("no_file", "ranks"),
    ),
    "Output": (
        *("output", "schedule", "compare", "csv", "html", "svg", "png", "tuner"),
        *("as_json", "verbose", "quiet"),
    ),
}
_OTHERS = "Options"
#: With fewer options one list is enough.
_MANY = 10


@dataclass(frozen=True)
class Listed:
    """A command as `taccl --help` lists it, so that listing imports none of them."""

    name: str
    group: str
    about: str


class Sectioned(click.Command):
    """A command whose options are listed in the sections of `SECTIONS`, where there are many."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = self.get_params(ctx)
        if len(options) < _MANY:
            super().format_options(ctx, formatter)
            return
        section_of = {name: section for section, names in SECTIONS.items() for name in names}
        rows: dict[str, list[tuple[str, str]]] = {section: [] for section in (*SECTIONS, _OTHERS)}
        for option in options:
            record = option.get_help_record(ctx)
            if record is not None and isinstance(option, click.Option):
                usual = "Output" if "--help" in option.opts else _OTHERS
                rows[section_of.get(option.name or "", usual)].append(record)
        for section, records in rows.items():
            if records:
                with formatter.section(section):
                    formatter.write_dl(records)


def write_commands(formatter: click.HelpFormatter, commands: Iterable[Listed]) -> None:
    """The commands by group, each with a line about it."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for command in commands:
        groups.setdefault(command.group, []).append((command.name, command.about))
    for group, rows in groups.items():
        with formatter.section(group):
            formatter.write_dl(rows)
