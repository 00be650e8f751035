"""The laboratory: what the audit says of PostgreSQL and of drivers, shown on a real server. Needs the extra `lab`."""
