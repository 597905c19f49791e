"""Numbers of the scheduling model: units of work, and shared sends where nothing is proved.

Where no measurement is named, a number was set by judgement, and no benchmark has spoken against it.
"""

from __future__ import annotations

# --- in_node

#: This many routes of an item over a link are written down in a unit of work.
IN_NODE_WRITTEN_PER_UNIT = 30

# --- node_parts

#: Sends of several items on a link, where a solution is requested and no proof.
NODE_PARTS_FEW_SHARED = 2
