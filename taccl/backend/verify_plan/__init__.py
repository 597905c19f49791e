"""What makes a plan for a one-sided runtime right, in its form and in what it does."""
