"""Forensics from logs: what usage tables and captures say about a prefix that is lost, and what they do not say."""
