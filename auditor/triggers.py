"""What files are searched for before any is parsed: bytes that stand in every file a kind of rule can speak of."""

from __future__ import annotations

#: What stands in every file that sets a custom setting: set_config(), SET LOCAL, SET app.tenant, f"SET {name} = …".
SETTING_TRIGGERS = (
    rb"set_config",
    rb"set\s+local\s",
    rb"set\s+session\s",
    rb"set\s+[\"{%][^\n]{0,60}(?:=|\bto\b)",
    rb"set\s+[a-z_]\w*\.[\"\w{%]+\s*(?:=|\bto\b)",
)
#: What stands in every file that gives connections a custom setting as they are opened.
CONNECT_TRIGGERS = (
    rb"server_settings",
    rb"-c [a-z_]\w*\.[\w.]+=",
    rb"-c%20[a-z_]\w*\.[\w.]+(?:=|%3d)",
    rb"alter\s+(?:role|user|database)\s[^\n]{0,120}\sset\s",
)
#: What stands in every file that gives SET, of whatever setting, a parameter.
PARAMETER_TRIGGERS = (
    rb"set\s+local\s",
    rb"set\s+session\s",
    rb"set\s+[\w.\"{}]+\s*(?:=|\bto\b)\s*(?:%|\$1|:\w|\{)",
)
#: What stands in every file that takes on another role, or another user's session.
ROLE_TRIGGERS = (rb"set\s+(?:session\s+)?role", rb"set\s+session\s+authorization", rb"set_config")
#: What stands in every file that makes a pool with callbacks.
POOL_TRIGGERS = (rb"connectionpool", rb"create_pool")
#: What stands in every file that claims jobs from a table.
CLAIM_TRIGGERS = (
    rb"skip\s+locked",
    rb"for_update",
    rb"lock_rows",
    rb"for\s+(?:no\s+key\s+)?update",
    rb"locked_(?:until|by|at)",
    rb"lease_?(?:until|expires|token|owner|id)",
    rb"claimed_(?:by|at|until)",
)
#: What stands in every file that looks for jobs which wait, in text, whatever it locks.
WAITING_TRIGGERS = (
    rb"status\s*=\s*'(?:pending|queued|ready|waiting|new|scheduled|available)'",
    rb"state\s*=\s*'(?:pending|queued|ready|waiting|new|scheduled|available)'",
    rb"processed_at\s+is\s+null",
    rb"published_at\s+is\s+null",
    rb"finished_at\s+is\s+null",
    rb"delivered_at\s+is\s+null",
    rb"dispatched_at\s+is\s+null",
    rb"sent_at\s+is\s+null",
)
#: What stands in every file that writes row security policies, or the functions that they call.
POLICY_TRIGGERS = (
    rb"create\s+policy",
    rb"alter\s+policy",
    rb"drop\s+policy",
    rb"row\s+level\s+security",
    rb"current_setting",
)
