"""A program by the costs of links alone: whole steps, and ports that serve one send at a time."""
