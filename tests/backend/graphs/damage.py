"""Right files of rings and trees, and damage with the verdict that it deserves."""

from __future__ import annotations

import random
from collections.abc import Callable

Channels = list[list[int]]
#: Changes a text, given the number of GPUs.
Damage = Callable[[str, int, random.Random], str]


def any_tree(ranks: int, dice: random.Random, most: int = 3) -> str:
    """A random tree in brackets, no GPU with more children than allowed; made by no code of taccl."""
    order = dice.sample(range(ranks), ranks)
    below: dict[int, list[int]] = {rank: [] for rank in order}
    for place, rank in enumerate(order[1:], start=1):
        below[dice.choice([each for each in order[:place] if len(below[each]) < most])].append(rank)

    def nested(rank: int) -> str:
        return f"({rank}{''.join(map(nested, below[rank]))})"

    return nested(order[0])


def trees(ranks: int, dice: random.Random) -> str:
    """A right line."""
    made = [any_tree(ranks, dice) for _ in range(dice.randint(1, 4))]
    return f"export RCCL_TREES='{'|'.join(made)}'\n"


def rings(ranks: int, dice: random.Random) -> str:
    """A right line, sometimes with network cards."""
    made = [" ".join(map(str, dice.sample(range(ranks), ranks))) for _ in range(dice.randint(1, 4))]
    if dice.random() < 0.3:
        made = [f"N{place} {ring} N{place + 1}" for place, ring in enumerate(made)]
    return f'NCCL_RINGS="{"|".join(made)}"\n'


def graph_file(ranks: int, dice: random.Random) -> str:
    """A right file."""
    text = '<graphs version="1">\n'
    for id_, pattern in ((0, 4), (1, dice.choice((1, 2, 3)))):
        count = dice.randint(1, 4)
        text += (
            f'<graph id="{id_}" pattern="{pattern}" crossnic="0" nchannels="{count}" speedintra="20" '
            'speedinter="10" latencyinter="0" typeintra="NVL" typeinter="PIX" samechannels="1">\n'
        )
        for _ in range(count):
            gpus = "".join(f'<gpu dev="{r:x}" rank="{r}"/>' for r in dice.sample(range(ranks), ranks))
            text += f"<channel>{gpus}</channel>\n"
        text += "</graph>\n"
    return text + "</graphs>\n"


def once(text: str, old: str, new: str) -> str:
    """The first occurrence replaced; it must be there."""
    assert old in text
    return text.replace(old, new, 1)


def _number(change: Callable[[str, int], str]) -> Damage:
    """Changes one of the numbers of GPUs in a line of the environment."""

    def damage(text: str, ranks: int, dice: random.Random) -> str:
        head, value = text.split("=", 1)
        parts, part = [], ""
        for letter in value:
            if letter.isdigit() == part.isdigit() and part:
                part += letter
            else:
                parts.append(part)
                part = letter
        parts.append(part)
        places = [i for i, each in enumerate(parts) if each.isdigit() and not parts[i - 1].endswith("N")]
        place = dice.choice(places)
        parts[place] = change(parts[place], ranks)
        return f"{head}={''.join(parts)}"

    return damage


def _cut(text: str, ranks: int, dice: random.Random) -> str:
    return text[: dice.randint(len(text) // 2, len(text) - 3)]


#: What is wrong -> how it is made.
OF_LINES: dict[str, Damage] = {
    "another GPU": _number(lambda number, ranks: str((int(number) + 1) % ranks)),
    "a GPU too far": _number(lambda number, ranks: str(int(number) + ranks)),
    "a letter": _number(lambda number, ranks: f"{number}a"),
    "a sign": _number(lambda number, ranks: f"-{number}"),
    "no number": _number(lambda number, ranks: ""),
    "a comma": _number(lambda number, ranks: f"{number},"),
    "cut": _cut,
    "no quotes": lambda text, ranks, dice: text.replace("'", "").replace('"', ""),
    "an empty channel": lambda text, ranks, dice: text.rstrip()[:-1] + "|" + text.rstrip()[-1],
    "another line": lambda text, ranks, dice: text + "RCCL_TREE=(0(1))\n",
    "set twice": lambda text, ranks, dice: text + text,
}
OF_TREES: dict[str, Damage] = {
    "a bracket less": lambda text, ranks, dice: once(text, ")", ""),
    "a bracket more": lambda text, ranks, dice: once(text, "(", "(("),
    "a space": lambda text, ranks, dice: once(text, "(", "( "),
    "two trees in one": lambda text, ranks, dice: text[:-2] + "(0)" + text[-2:],
    "four children": lambda text, ranks, dice: (
        "RCCL_TREES='(0" + "".join(f"({r})" for r in range(1, ranks)) + ")'"
    ),
}
OF_RINGS: dict[str, Damage] = {
    "two spaces": lambda text, ranks, dice: once(text, " ", "  "),
    "commas": lambda text, ranks, dice: text.replace(" ", ","),
    "one card": lambda text, ranks, dice: (
        once(text, '"', '"N7 ') if "N" not in text[11:] else once(text, "N0 ", "")
    ),
    "a semicolon": lambda text, ranks, dice: once(text, " ", " ; "),
}
_ONE_GPU = '<gpu dev="0" rank="0"/>'
OF_FILES: dict[str, Damage] = {
    "a GPU less": lambda text, ranks, dice: once(text, _ONE_GPU, ""),
    "a GPU twice": lambda text, ranks, dice: once(text, _ONE_GPU, _ONE_GPU * 2),
    "a GPU too far": lambda text, ranks, dice: once(text, 'rank="0"', f'rank="{ranks}"'),
    "no rank": lambda text, ranks, dice: once(text, ' rank="0"', ""),
    "a negative rank": lambda text, ranks, dice: once(text, 'rank="0"', 'rank="-1"'),
    "version": lambda text, ranks, dice: once(text, 'version="1"', 'version="2"'),
    "nchannels": lambda text, ranks, dice: once(text, 'nchannels="', 'nchannels="1'),
    "a channel less": lambda text, ranks, dice: once(text, "<channel>", "<!-- ").replace(
        "</channel>", " -->", 1
    ),
    "id": lambda text, ranks, dice: once(text, 'id="1"', 'id="7"'),
    "two rings": lambda text, ranks, dice: once(text, 'id="1"', 'id="0"'),
    "pattern": lambda text, ranks, dice: once(text, 'pattern="4"', 'pattern="1"'),
    "a type": lambda text, ranks, dice: once(text, "NVL", "NVLINK"),
    "a slow graph": lambda text, ranks, dice: once(text, 'speedintra="20"', 'speedintra="0"'),
    "no speed": lambda text, ranks, dice: once(text, ' speedinter="10"', ""),
    "speed": lambda text, ranks, dice: once(text, '"20"', '"fast"'),
    "an attribute": lambda text, ranks, dice: once(text, "crossnic", "crossNic"),
    "a net inside": lambda text, ranks, dice: once(
        text, _ONE_GPU, '<net dev="1"/>' + _ONE_GPU + '<net dev="2"/>'
    ),
    "an element": lambda text, ranks, dice: once(text, "<channel>", "<chanel/><channel>"),
    "two lists": lambda text, ranks, dice: text + text,
    "no graph": lambda text, ranks, dice: '<graphs version="1"/>',
    "a net without number": lambda text, ranks, dice: once(text, "<channel>", "<channel><net/>"),
}
#: What changes nothing that a library would mind.
HARMLESS: dict[str, Damage] = {
    "blank lines": lambda text, ranks, dice: f"\n{text}\n\n",
    "comment": lambda text, ranks, dice: (
        ("" if "<graph" in text else "# of the machine at the window\n") + text
    ),
    "as it is": lambda text, ranks, dice: text,
}
