"""`python -m auditor` is `tenant-audit`."""

import sys

from auditor.cli import run

sys.exit(run())
