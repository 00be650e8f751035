"""tenant-audit: reads Python worker code and SQL, and reports whose data a job sees and what a rollback undoes."""

__version__ = "0.1.0"
