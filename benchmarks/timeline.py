"""The picture of the README: the fastest AllGather of 8 MB on a node of 8 V100s, link by link.

python -m benchmarks.timeline        writes docs/timeline.svg
"""

from pathlib import Path

import matplotlib.pyplot as plt

from taccl import synthesize

PICTURE = Path(__file__).parents[1] / "docs" / "timeline.svg"


def main() -> None:
    """Draw it."""
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "taccl"})
    result = synthesize(
        "allgather", topology="ndv2", nodes=1, size="8MB", chunks=1, effort=4000, file=False, executor=False
    )
    figure, axes = plt.subplots(figsize=(9, 4.2))
    result.plot("link", ax=axes)
    axes.tick_params(axis="y", labelsize=6)
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
