"""`python -m auditor` is `tenant-audit`."""

import sys

from auditor.cli import main

sys.exit(main())
