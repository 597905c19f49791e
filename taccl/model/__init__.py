"""The nouns: units, collectives, networks, problems, schedules."""
