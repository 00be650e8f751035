"""What a walk knows at a moment, and what it has seen: values, connections, settings, jobs, events."""
