"""The walk through a program, from its entry points through calls, blocks and loops."""
