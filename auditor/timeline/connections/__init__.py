"""Connections, pools and sessions: what a driver's calls and the statements on them do."""
