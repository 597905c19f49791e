"""What knows nothing of collectives: arguments, files, plugins, compiled loops, tables of results."""
