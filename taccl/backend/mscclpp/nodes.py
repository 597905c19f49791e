"""Which ranks of a plan are on a node: the plan itself tells by whom memory channels join."""

from __future__ import annotations

from taccl.backend.plan import Channel, ExecutionPlan


def ranks_joined(plan: ExecutionPlan) -> int | None:
    """How many ranks are on each node; None: memory channels do not tell, or not as many on each."""
    groups = _joined_by_memory(plan)
    size = len(groups[0])
    equivalent = all(group == list(range(group[0], group[0] + size)) for group in groups)
    if not equivalent or (size == 1 and plan.num_ranks > 1) or any(len(group) != size for group in groups):
        return None
    return size


def _joined_by_memory(plan: ExecutionPlan) -> list[list[int]]:
    """Groups of ranks that memory and switch channels join, or memory without signals, each in rank order."""
    group_of = list(range(plan.num_ranks))
    for rank in plan.ranks:
        peers = set(rank.peers_of(Channel.MEMORY))
        peers |= {
            remote_buffer.rank
            for remote_buffer in rank.remote_buffers
            if Channel.MEMORY in remote_buffer.access
        }
        peers |= {peer for row in rank.channels for members in row.groups for peer in members}
        for peer in peers:
            old, new = sorted((group_of[rank.rank], group_of[peer]), reverse=True)
            group_of = [new if each == old else each for each in group_of]
    groups: dict[int, list[int]] = {}
    for number, group in enumerate(group_of):
        groups.setdefault(group, []).append(number)
    return list(groups.values())
