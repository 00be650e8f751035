"""Calls that leave the process."""
