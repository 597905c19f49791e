"""What stock libraries do without this program: NCCL's and RCCL's own choices, and published measurements."""
