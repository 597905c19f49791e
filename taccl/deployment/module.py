"""The text of the Python module that registers plans with MSCCL++.

Here are the rows that differ from module to module; what all modules do stands in `emitted`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from taccl.deployment.order import LAST, Preferred
from taccl.deployment.plans import DeployedPlan

_HEAD = '''\
"""Plans for MSCCL++ that taccl verified, and which of them a call takes. Written by `taccl deploy`.

In each process, before the communicator is made:

    import {name}
    {name}.register()
    torch.distributed.init_process_group("nccl")

and start it with mscclpp's libmscclpp_nccl.so preloaded. The plans only add: a maximum, minimum or average
would come out as a sum, and nothing says so.
"""
'''
_NO_PLANS = "PLANS: tuple[Plan, ...] = ()\n"
_NO_ORDER = "ORDER: dict[tuple[str, int], tuple[tuple[int, tuple[str, ...]], ...]] = {}\n"


def module_text(
    name: str,
    plans: Sequence[DeployedPlan],
    files_of: Mapping[str, str],
    order: Sequence[Preferred],
) -> str:
    """The module.

    Parameters
    ----------
    name : what it is imported as.
    files_of : by the name of a plan, its file as seen from the folder of the module.
    """
    source = files(__package__).joinpath("emitted.py").read_text(encoding="utf-8")
    body = source.split('"""\n', 1)[1]
    for marker, rows in ((_NO_PLANS, _plan_rows(plans, files_of)), (_NO_ORDER, _order_rows(order))):
        head, found, rest = body.partition(marker)
        if not found:
            raise RuntimeError(f"emitted.py has no line {marker!r}")
        body = head + rows + rest
    return _HEAD.format(name=name) + body


def _plan_rows(plans: Sequence[DeployedPlan], files_of: Mapping[str, str]) -> str:
    lines = ["PLANS: tuple[Plan, ...] = ("]
    for plan in plans:
        values = {
            "name": plan.name,
            "file": files_of[plan.name],
            "sha256": plan.sha256,
            "collective": plan.collective,
            "ranks": plan.ranks,
            "ranks_per_node": plan.ranks_per_node,
            "in_place": plan.in_place,
            "min_bytes": plan.min_bytes,
            "max_bytes": plan.max_bytes,
            "unit_bytes": plan.unit_bytes,
            "root": plan.root,
            "whole_buffers": plan.needs_whole_buffers,
            "packets": plan.plan.moves_packets,
        }
        lines += ["    Plan(", *(f"        {key}={value!a}," for key, value in values.items()), "    ),"]
    return "\n".join([*lines, ")", ""])


def _order_rows(order: Sequence[Preferred]) -> str:
    groups: dict[tuple[str, int], list[Preferred]] = {}
    for row in order:
        groups.setdefault((row.collective, row.ranks), []).append(row)
    lines = ["ORDER: dict[tuple[str, int], tuple[tuple[int, tuple[str, ...]], ...]] = {"]
    for key, rows in groups.items():
        lines.append(f"    {key!a}: (")
        for row in rows:
            most = "2**64 - 1" if row.up_to_bytes == LAST else str(row.up_to_bytes)
            lines.append(f"        ({most}, {row.names!a}),")
        lines.append("    ),")
    return "\n".join([*lines, "}", ""])
