"""Machines from what tools print: nodes and the fabrics between them."""
