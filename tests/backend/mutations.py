"""Small random damage to a program, of the kinds that a faulty writer or a careless hand does."""

from __future__ import annotations

from dataclasses import replace

from programs import edit, with_block, with_steps

from taccl.backend.program import Buffer, Op


def mutate(dice, program):
    """(what was done, the damaged program)."""
    while True:
        name, change = dice.choice(_KINDS)
        rank = dice.randrange(program.num_ranks)
        blocks = program.ranks[rank].thread_blocks
        block = dice.choice(blocks)
        if not block.steps:
            continue
        index = dice.randrange(len(block.steps))
        changed = change(dice, program, rank, block, index)
        if changed is not None and changed != program:
            return f"{name} at rank {rank}, block {block.id}, step {index}", changed


def _drop_wait(dice, program, rank, block, index):
    if block.steps[index].depends is None:
        return None
    return edit(program, rank, block.id, index, depends=None)


def _change_wait(dice, program, rank, block, index):
    other = dice.choice(program.ranks[rank].thread_blocks)
    wait = (other.id, dice.randrange(max(1, len(other.steps))))
    return edit(program, rank, block.id, index, depends=wait)


def _flip_tells(dice, program, rank, block, index):
    return edit(program, rank, block.id, index, has_dependent=not block.steps[index].has_dependent)


def _move_source(dice, program, rank, block, index):
    offset = block.steps[index].src_offset + dice.choice((-1, 1))
    return edit(program, rank, block.id, index, src_offset=offset)


def _move_target(dice, program, rank, block, index):
    offset = block.steps[index].dst_offset + dice.choice((-1, 1))
    return edit(program, rank, block.id, index, dst_offset=offset)


def _change_buffer(dice, program, rank, block, index):
    side = dice.choice(("src", "dst"))
    return edit(program, rank, block.id, index, **{side: dice.choice(list(Buffer))})


def _change_count(dice, program, rank, block, index):
    return edit(program, rank, block.id, index, count=max(1, block.steps[index].count + dice.choice((-1, 1))))


def _change_peer(dice, program, rank, block, index):
    side = dice.choice(("send", "recv"))
    return with_block(program, rank, block.id, **{side: dice.randrange(-1, program.num_ranks)})


def _change_channel(dice, program, rank, block, index):
    made = with_block(program, rank, block.id, channel=dice.randrange(2))
    return replace(made, num_channels=max(2, made.num_channels))


def _swap(dice, program, rank, block, index):
    other = dice.randrange(len(block.steps))
    steps = list(block.steps)
    steps[index], steps[other] = steps[other], steps[index]
    return with_steps(program, rank, block.id, lambda _: steps)


def _duplicate(dice, program, rank, block, index):
    steps = (*block.steps[: index + 1], *block.steps[index:])
    return with_steps(program, rank, block.id, lambda _: steps)


def _remove(dice, program, rank, block, index):
    steps = block.steps[:index] + block.steps[index + 1 :]
    return with_steps(program, rank, block.id, lambda _: steps)


def _change_kind(dice, program, rank, block, index):
    return edit(program, rank, block.id, index, op=dice.choice(list(Op)))


def _change_mode(dice, program, rank, block, index):
    return replace(program, in_place=dice.random() < 0.5, out_of_place=dice.random() < 0.5)


_KINDS = (
    ("drop a wait", _drop_wait),
    ("drop a wait", _drop_wait),
    ("change a wait", _change_wait),
    ("flip hasdep", _flip_tells),
    ("move a source", _move_source),
    ("move a target", _move_target),
    ("change a buffer", _change_buffer),
    ("change a count", _change_count),
    ("change a peer", _change_peer),
    ("change a channel", _change_channel),
    ("swap two steps", _swap),
    ("duplicate a step", _duplicate),
    ("remove a step", _remove),
    ("change a kind", _change_kind),
    ("change the modes", _change_mode),
)
