"""A machine built on one Linux computer out of network namespaces and shaped links, to run ranks in it."""
