"""A machine as a picture: its nodes, what is in them, and links by bandwidth or by load."""
