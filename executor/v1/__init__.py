"""Generated from proto/executor/v1; never edited."""
