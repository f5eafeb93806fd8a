"""The command `check`, which follows oneDNN's own test driver, benchdnn."""
