"""An exploration as a page for the browser: curves, gaps, link loads, and the timeline behind each point."""
