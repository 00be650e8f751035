"""The program: files read and linked, so that it is known what every name and every statement means."""

from __future__ import annotations

from auditor.program.program import Program
from auditor.program.read import read_program

__all__ = ["Program", "read_program"]
