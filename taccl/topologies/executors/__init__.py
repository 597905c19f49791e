"""What executing costs by default: by models of GPUs and runtimes, each number with its source."""
