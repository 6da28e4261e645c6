"""Where generations of a corpus live, and how a lookup reads one."""
