"""Which host takes which place of a plan: the order of hosts in which a given plan is fastest."""
