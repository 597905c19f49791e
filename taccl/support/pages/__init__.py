"""Pages for the browser: what they are put together from, and what they all share."""
