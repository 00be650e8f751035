"""The questions that rules ask of what a walk has seen, and their answers."""
