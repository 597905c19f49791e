"""Files in somebody's job: which of them a call takes, and what one rank does then."""
