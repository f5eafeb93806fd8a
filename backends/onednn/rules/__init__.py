"""What must not run of the library's implementations, by primitive; `quarantine.py` asks."""
