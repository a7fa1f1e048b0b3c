"""The passes: each takes a plan and returns a new one."""
