"""Groups of automorphisms: what is one, how they are found, what they leave to decide."""
